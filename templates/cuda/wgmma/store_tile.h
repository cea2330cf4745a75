// A tile of D: how its sums are finished and stored. Included by store.h, for gated products in a
// namespace whose sizes are those of D's tile. Expects epilogue.h, hopper_ptx.h, store_ptx.h.
#pragma once

//% if store == direct || rolled
constexpr int kPart = kSums;
//% else
constexpr int kPart = kChunk / 2;  // sums of one chunk
//% end
/// Sums that are finished together: enough loads in flight, few registers beside the sums.
constexpr int kTogether = kPart % 16 == 0 ? 16 : kPart % 8 == 0 ? 8 : 4;

/// The elements of a matrix like D under sums [i, i + kTogether); zero outside. `left`, `right`: of
/// sum 0.
KILN_DEVICE void load_under(Real (&x)[kTogether],
                            //% if kept_in_d
                            const TypeC* from,
                            //% else
                            const TypeD* from,
                            //% end
                            i64 ld, const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    const i64 row = row_of(l, r), column = column_of(l, r);
    x[e] = row < out.rows && column < out.columns ? to_real(from[row * ld + column]) : Real(0);
  }
}

//% if together
static_assert(kTogether * 2 == kRightTogether);

/// Leaves in the workspace what lanes make together of neighbours in a line of D: `value(e)` is
/// that of sum i + e. kOfRow: a line is a row.
template <typename R, bool kOfRow, typename F>
KILN_DEVICE void keep_together(Real* to, i64 ld, const Output& out, i64 left, i64 right, int i,
                               F&& value) {
  const int lane = int(threadIdx.x) & 31;
  const auto term = [&](int e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    return row_of(l, r) < out.rows && column_of(l, r) < out.columns ? value(e) : R::of_none();
  };
  const i64 lines = kOfRow ? out.rows : out.columns, length = kOfRow ? out.columns : out.rows;
  const auto keep = [&](i64 line, i64 first, int count, Real all) {
    if (line < lines && first < length)
      to[kOfRow ? line * ld + first / count : first / count * ld + line] = all;
  };
  if constexpr (kOfRow != kSwap) {
    const i64 first = right - lane % 4 * 2 + i / 4 * 8;
    _Pragma("unroll") for (int half = 0; half < 2; ++half) {
      Real some[kTogether / 2];
      _Pragma("unroll") for (int g = 0; g < kTogether / 4; ++g)
        _Pragma("unroll") for (int odd = 0; odd < 2; ++odd)
          some[g * 2 + odd] = term(g * 4 + half * 2 + odd);
      const Real all = Reduced<R, Lanes<1, 4>>::of(some);
      if (lane % 4 == 0) keep(left + half * 8, first, kRightTogether, all);
    }
  } else {
    const i64 first = left - lane / 4;
    _Pragma("unroll") for (int g = 0; g < kTogether / 4; ++g)
      _Pragma("unroll") for (int odd = 0; odd < 2; ++odd) {
        const Real some[2] = {term(g * 4 + odd), term(g * 4 + odd + 2)};
        const Real all = Reduced<R, Lanes<4, 32>>::of(some);
        if (lane < 4) keep(right + (i / 4 + g) * 8 + odd, first, 16, all);
      }
  }
}

//% end
//% if rolled
/// What the expression reads of matrices for sums [i, i + kTogether).
KILN_DEVICE void load_words(Words (&words)[kTogether / 2], const Output& out, i64 left, i64 right,
                            int i, bool in_pairs) {
  constexpr int kDown = kSwap ? 1 : 0, kRight = kSwap ? 0 : 1;
  if (in_pairs) {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_inside<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  } else {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_at_edge<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  }
}
//% if bring
/// The matrices that did not come through the ring.
KILN_DEVICE void load_under_turn(Words (&words)[kTogether / 2], const Output& out, i64 left,
                                 i64 right) {
  constexpr int kDown = kSwap ? 1 : 0, kRight = kSwap ? 0 : 1;
  _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
    const i64 l = left + (e & 2) * 4, r = right + e / 4 * 8;
    words_under<kDown, kRight>(words[e / 2], out, row_of(l, r), column_of(l, r));
  }
}
//% end
template <bool Inside>
KILN_DEVICE void make_extras(Extras (&extras)[kTogether], const Words (&words)[kTogether / 2],
                             const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
    extras_of_two<kSwap ? 1 : 0, kSwap ? 0 : 1, Inside>(out, words[e / 2], row_of(l, r),
                                                        column_of(l, r), extras[e], extras[e + 1]);
  }
}

//% end
//% if outputs
/// Stores what the expression left of sums [i, i + kTogether), beside D or in the workspace.
KILN_DEVICE void store_extras(const Extras (&extras)[kTogether], const Output& out, i64 left,
                              i64 right, int i, bool in_pairs) {
  //% if together
  //% include expression/together
  //% end
  //% if rolled && stores_matrices
  if (in_pairs) {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      store_two<kSwap ? 1 : 0, kSwap ? 0 : 1>(out, row_of(l, r), column_of(l, r), extras[e],
                                              extras[e + 1]);
      //% if reduces && !together
      keep_values(out, row_of(l, r), column_of(l, r), extras[e]);
      keep_values(out, row_of(l, r + 1), column_of(l, r + 1), extras[e + 1]);
      //% end
    }
    return;
  }
  //% end
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    //% if together
    store_matrices(out, row_of(l, r), column_of(l, r), extras[e]);
    //% else
    store_beside(out, row_of(l, r), column_of(l, r), extras[e]);
    //% end
  }
}

//% end
//% if integer_d
/// alpha, beta·C and the rest in 32 bits that wrap, for sums [i, i + kTogether), in place. No
/// sum is written under a condition of its own: the assembler would then serialise wgmma.
KILN_DEVICE void finish_whole_sums(Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                                   int i) {
  const auto add = [&](const TypeD* from, i64 ld, u32 factor) {
    u32 x[kTogether];
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
      const i64 row = row_of(l, r), column = column_of(l, r);
      x[e] = row < out.rows && column < out.columns ? u32(from[row * ld + column]) : 0;
    }
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
      sums[i + e] = i32(u32(sums[i + e]) + x[e] * factor);
  };
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    sums[i + e] = i32(u32(sums[i + e]) * out.whole_alpha);
  if (out.c) add(out.c, out.ldc, out.whole_beta);
  //% if activation == relu
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) sums[i + e] = max(sums[i + e], 0);
  //% end
  //% if residual
  add(out.residual, out.ldd, 1);
  //% end
}
//% end
//% if gate && !rolled
/// What is left for sums [i, i + kTogether) of D, in place.
//% else
/// alpha, beta·C and the rest for sums [i, i + kTogether), in place.
//% end
KILN_DEVICE void finish_sums(Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                             //% if rolled
                             const Words (&words)[kTogether / 2], bool inside, bool in_pairs,
                             //% end
                             //% if rolled && gate
                             const Acc (&others)[kSums],
                             //% end
                             int i) {
  //% if gate && rolled
  Real passed[kTogether];
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    Acc sum = sums[i + e], other = others[i + e];
    //% if zero_a
    subtract_zeros(out, sum, other, row_of(l, r), column_of(l, r));
    //% end
    Real first = first_real(sum);
    passed[e] = first_real(other);
    make_factors(out, first, passed[e], row_of(l, r), column_of(l, r));
    sums[i + e] = kept(first);
  }
  //% end
  //% if !gate
  //% if integer_d
  if (out.whole) {
    finish_whole_sums(sums, out, left, right, i);
    compiler_barrier();
    return;
  }
  //% end
  //% if line_scale_a || line_scale_b || halves
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    //% if zero_a
    subtract_zeros(out, sums[i + e], row_of(l, r), column_of(l, r));
    //% end
    sums[i + e] = kept(scaled(out, first_real(sums[i + e]), row_of(l, r), column_of(l, r)));
  }
  //% end
  //% if integer && line_scale_a || integer && line_scale_b
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    sums[i + e] = kept(product(real_of(sums[i + e]), out.alpha));
  //% else
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    sums[i + e] = kept(product(first_real(sums[i + e]), out.alpha));
  //% end
  //% if !scale_d
  if (out.c) {
    Real c[kTogether];
    load_under(c, out.c, out.ldc, out, left, right, i);
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
      sums[i + e] = kept(real_of(sums[i + e]) + out.beta * c[e]);
  }
  //% end
  //% end
  //% if expressed && !gate || rolled
  Extras extras[kTogether];
  //% if rolled
  if (inside)
    make_extras<true>(extras, words, out, left, right, i);
  else
    make_extras<false>(extras, words, out, left, right, i);
  //% else
  const bool in_pairs = false;
  // All loads before the first value that needs one.
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    extras[e] = extras_at(out, row_of(l, r), column_of(l, r));
  }
  //% end
  //% if gate
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) extras[e].other = passed[e];
  //% end
  //% if reads_pairs
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    show_to_neighbour(out, real_of(sums[i + e]), row_of(l, r), column_of(l, r), extras[e]);
  }
  //% if swap
  const bool odd = (threadIdx.x & 4) != 0;
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    take_from_lane(extras[e], 4, odd, left + (e & 2) * 4 + 1 < out.columns);
  //% else
  _Pragma("unroll") for (int e = 0; e < kTogether; e += 2)
    take_from_neighbour(extras[e], extras[e + 1], right + (i + e) / 4 * 8 + 1 < out.columns);
  //% end
  //% end
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    sums[i + e] = kept(finish(out, real_of(sums[i + e]), row_of(l, r), column_of(l, r), extras[e]));
  }
  //% if outputs
  store_extras(extras, out, left, right, i, in_pairs);
  //% end
  //% end
  //% if amax
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    if (row_of(l, r) < out.rows && column_of(l, r) < out.columns)
      out.largest = larger_magnitude(out.largest, real_of(sums[i + e]));
  }
  //% end
  // Otherwise loads of later sums move up here, and sums already fill the registers.
  compiler_barrier();
}

KILN_DEVICE TypeD stored(Acc sum, bool exact) {
  //% if integer_d
  if (exact) return sum;
  //% end
  return from_real(real_of(sum), TypeD{});
}

//% if paired
KILN_DEVICE void store_single(TypeD* d, u32 bits) { d->bits = u16(bits); }

/// Two elements at a time whatever the row's address is. Where pairs would straddle words, a lane's
/// second element goes out with the first of the lane behind it, or of the next eight right rows.
KILN_DEVICE void store_direct(const Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                              bool) {
  constexpr int kGroups = kSums / 4;
  const int lane = int(threadIdx.x) & 31, place = lane % 4;
  const int length = int(min(out.columns - right, i64(kRightTile)));
  _Pragma("unroll") for (int half = 0; half < 2; ++half) {
    const i64 row = left + half * 8;
    //% if scatter
    TypeD* d = row_of_d(out, row < out.rows ? row : 0) + right;
    //% else
    TypeD* d = out.d + row * out.ldd + right;
    //% end
    const bool there = row < out.rows, straddles = (reinterpret_cast<u64>(d) & 2) != 0;
    u32 two[kGroups];
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      two[g] =
          pack_two(real_of(sums[g * 4 + half * 2]), real_of(sums[g * 4 + half * 2 + 1]), TypeD{});
    if (there && straddles && place == 0 && length > 0) store_single(d, two[0]);
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g) {
      const u32 mine = place == 0 && g + 1 < kGroups ? two[g + 1 < kGroups ? g + 1 : g] : two[g];
      const u32 next = __shfl_sync(0xffffffff, mine, lane / 4 * 4 + (place + 1) % 4);
      const u32 pair = straddles ? __funnelshift_r(two[g], next, 16) : two[g];
      const int first = g * 8 + (straddles ? 1 : 0);
      // The last element of the tile has no partner in it.
      const bool alone = straddles && place == 3 && g + 1 == kGroups;
      if (there && first + 1 < length && !alone)
        *reinterpret_cast<u32*>(d + first) = pair;
      else if (there && first < length)
        store_single(d + first, pair);
    }
  }
}
//% end
//% if store == direct && !paired
struct alignas(2 * sizeof(TypeD)) TwoD {
  TypeD first, second;
};

KILN_DEVICE void store_direct(const Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                              bool exact) {
  _Pragma("unroll") for (int i = 0; i < kSums; i += 2) {
    const i64 l = left + (i & 2) * 4, r = right + i / 4 * 8;
    const TypeD x = stored(sums[i], exact), y = stored(sums[i + 1], exact);
    //% if swap
    if (l >= out.columns) continue;
    //% if scatter
    if (r < out.rows) row_of_d(out, r)[l] = x;
    if (r + 1 < out.rows) row_of_d(out, r + 1)[l] = y;
    //% else
    if (r < out.rows) out.d[r * out.ldd + l] = x;
    if (r + 1 < out.rows) out.d[(r + 1) * out.ldd + l] = y;
    //% end
    //% else
    if (l >= out.rows) continue;
    //% if scatter
    TypeD* d = row_of_d(out, l) + r;
    //% else
    TypeD* d = out.d + l * out.ldd + r;
    //% end
    //% if pairs
    if (r + 1 < out.columns) {
      *reinterpret_cast<TwoD*>(d) = TwoD{x, y};
      continue;
    }
    //% end
    if (r < out.columns) d[0] = x;
    if (r + 1 < out.columns) d[1] = y;
    //% end
  }
}
//% end
//% if store != direct
constexpr int kPitch = (kSwap ? 16 : kChunk) * int(sizeof(TypeD));  // bytes of a buffer's row

KILN_DEVICE u32 swizzled(int row, int unit) { return swizzled_byte(row, unit, kPitch); }

//% end
//% if store != direct && wide_d
KILN_DEVICE u32 bits_of(float x) { return u32(__float_as_int(x)); }
KILN_DEVICE u32 bits_of(i32 x) { return u32(x); }
//% end
//% if store != direct && !rolled
//% if wide_d

/// A warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into a buffer.
KILN_DEVICE void fill_buffer(const Acc (&sums)[kSums], int j, u32 buffer, int lane, bool exact) {
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; ++g)
    _Pragma("unroll") for (int half = 0; half < 2; ++half) {
      const int i = (j + g) * 4 + half * 2, left = lane / 4 + half * 8,
                right = g * 8 + lane % 4 * 2;
      const u32 x = bits_of(stored(sums[i], exact)), y = bits_of(stored(sums[i + 1], exact));
      //% if swap
      store_shared_one(buffer + swizzled(right, left / 4) + left % 4 * 4, x);
      store_shared_one(buffer + swizzled(right + 1, left / 4) + left % 4 * 4, y);
      //% else
      store_shared_pair(buffer + swizzled(left, right / 4) + right % 4 * 4, x, y);
      //% end
    }
}
//% else
/// A warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into a buffer.
KILN_DEVICE void fill_buffer(const Acc (&sums)[kSums], int j, u32 buffer, int lane, bool) {
  const auto two = [&](int i) { return pack_two(real_of(sums[i]), real_of(sums[i + 1]), TypeD{}); };
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; g += kChunk == 8 ? 1 : 2) {
    const int i = (j + g) * 4;
    //% if swap
    const int row = g * 8 + (lane & 7) + ((lane >> 4) << 3);
    const u32 to = buffer + swizzled(kChunk == 8 ? lane & 7 : row, (lane >> 3) & 1);
    if constexpr (kChunk == 8)
      stmatrix_x2_trans(to, two(i), two(i + 2));
    else
      stmatrix_x4_trans(to, two(i), two(i + 2), two(i + 4), two(i + 6));
    //% else
    const int row = lane & 15;
    if constexpr (kChunk == 8)
      stmatrix_x2(buffer + swizzled(row, 0), two(i), two(i + 2));
    else
      stmatrix_x4(buffer + swizzled(row, g + (lane >> 4)), two(i), two(i + 2), two(i + 4),
                  two(i + 6));
    //% end
  }
}
//% end
//% end

//% if store == tma && row_groups
/// The copy engine knows where a matrix ends, not where a group does. So D's map has a dimension of
/// as many rows as a buffer's, before D's first, and one of D's rows behind it: that row of D at
/// which a box must end is the coordinate of the second, and what of the box lies beyond it is
/// outside of the first.
KILN_DEVICE void store_rows(const KilnTensorMap* map_d, u32 from, const Output& out, i64 row0,
                            i64 column0, int first_row) {
  constexpr int kRows = kSwap ? kChunk : 16;
  const int row = int(row0), end = int(min(out.rows, row0 + kRows));
  tma_store_3d(map_d, from, int(column0), kRows - (end - row), first_row + end);
}
//% end

//% if store == staged && lists
struct alignas(16) UnitD {
  TypeD element[16 / int(sizeof(TypeD))];
};

/// A buffer's elements to D, 16 bytes at a time: rows of a product's D begin at multiples of that,
/// but may end anywhere. (row0, column0) is the buffer's first element.
KILN_DEVICE void drain_buffer(u32 buffer, const Output& out, i64 row0, i64 column0, int lane) {
  constexpr int kOfUnit = 16 / int(sizeof(TypeD));
  constexpr int kUnits = (kSwap ? 16 : kChunk) / kOfUnit, kAll = (kSwap ? kChunk : 16) * kUnits;
  _Pragma("unroll") for (int i = 0; i < (kAll + 31) / 32; ++i) {
    const int at = i * 32 + lane, unit = at % kUnits;
    const i64 row = row0 + at / kUnits, column = column0 + unit * kOfUnit;
    if (at >= kAll || row >= out.rows || column >= out.columns) continue;
    UnitD some;
    load_shared_words(reinterpret_cast<u32(&)[4]>(some), buffer + swizzled(at / kUnits, unit));
    TypeD* d = out.d + row * out.ldd + column;
    if (column + kOfUnit <= out.columns) {
      *reinterpret_cast<UnitD*>(d) = some;
    } else {
      _Pragma("unroll") for (int e = 0; e < kOfUnit; ++e)
        if (column + e < out.columns) d[e] = some.element[e];
    }
  }
}
//% end
//% if store == staged && !lists
struct alignas(8) FourD {
  TypeD element[4];
};

/// A buffer's elements to D in words of 8 bytes, cut where memory is aligned, whatever the row's
/// first address is. (row0, column0) is the buffer's first element.
KILN_DEVICE void drain_buffer(u32 buffer, const Output& out, i64 row0, i64 column0, int lane) {
  constexpr int kRows = kSwap ? kChunk : 16, kLength = kSwap ? 16 : kChunk;
  constexpr int kWords = kLength / 4 + 1;
  const int length = int(min(i64(kLength), out.columns - column0));
  for (int t = lane; t < kRows * kWords; t += 32) {
    const int row = t / kWords;
    if (row0 + row >= out.rows) continue;
    //% if scatter
    TypeD* d = row_of_d(out, row0 + row) + column0;
    //% else
    TypeD* d = out.d + (row0 + row) * out.ldd + column0;
    //% end
    const int first = t % kWords * 4 - int(reinterpret_cast<u64>(d) >> 1 & 3);
    FourD some;
    _Pragma("unroll") for (int e = 0; e < 4; ++e) {
      const int at = max(0, min(first + e, kLength - 1));
      some.element[e].bits = load_shared_half(buffer + swizzled(row, at / 8) + at % 8 * 2);
    }
    if (first >= 0 && first + 4 <= length) {
      *reinterpret_cast<FourD*>(d + first) = some;
    } else {
      _Pragma("unroll") for (int e = 0; e < 4; ++e)
        if (first + e >= 0 && first + e < length) d[first + e] = some.element[e];
    }
  }
}
//% end
//% if !rolled

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(Acc (&sums)[kSubtiles][kSums], const Work& work,
                            const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                            u32 row_offset, int group, int thread) {
  //% if halves
  Output out = output_of(args, work.batch);
  find_exponents(out, args, work.batch);
  //% else
  //% if row_groups
  const Output out = output_of_group(args, work.batch, work.first_row, work.rows);
  //% end
  //% if k_groups
  const Output out = output_of_group(args, work.batch);
  //% end
  //% if lists
  const Output out = output_of(args_of_product(args, work.batch), 0);
  //% end
  //% if !groups
  const Output out = output_of(args, work.batch);
  //% end
  //% end
  //% if row_groups && store == tma
  //% if masked
  const int first_row = work.batch * int(args.stride_d / args.ldd);
  //% else
  const int first_row = work.first_row;
  //% end
  //% end
  const int warp = thread / 32, lane = thread & 31;
  const i64 left = i64(work.left) * kLeftTile + row_offset + warp * 16;
  const i64 right = i64(work.right) * kRightTile;
  const i64 my_left = left + lane / 4, my_right = right + lane % 4 * 2;
  //% if integer_d
  const bool exact = out.whole;
  //% if expressed
  const bool as_they_are = false;
  //% else
  const bool as_they_are = exact && out.whole_alpha == 1 && !out.c;
  //% end
  //% else
  const bool exact = false;
  //% end
  //% if store == direct
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s) {
    //% if integer_d
    if (!as_they_are)
      //% else
      if (!exact)
        //% end
        _Pragma("unroll") for (int i = 0; i < kSums; i += kTogether)
          finish_sums(sums[s], out, my_left + s * 64, my_right, i);
    store_direct(sums[s], out, my_left + s * 64, my_right, exact);
  }
  //% else
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int chunk = 0; chunk < kRightTile / kChunk; ++chunk) {
      //% if integer_d
      if (!as_they_are)
        //% else
        if (!exact)
          //% end
          _Pragma("unroll") for (int i = 0; i < kPart; i += kTogether)
            finish_sums(sums[s], out, my_left + s * 64, my_right, chunk * kPart + i);
      const u32 here = mine + (s * (kRightTile / kChunk) + chunk) % kStoreBuffers * kBufferBytes;
      const i64 l = left + s * 64, r = right + chunk * kChunk;
      //% if store == tma
      // An odd number of chunks leaves the first buffer to the last store of the tile before.
      if (lane == 0) {
        if (s == 0 && chunk == 0)
          tma_store_wait_read<0>();
        else
          tma_store_wait_read<kStoreBuffers - 1>();
      }
      __syncwarp();
      fill_buffer(sums[s], chunk * (kChunk / 8), here, lane, exact);
      fence_async_shared();
      __syncwarp();
      //% if row_groups
      if (lane == 0) {
        store_rows(map_d, here, out, row_of(l, r), column_of(l, r), first_row);
        tma_store_commit();
      }
      //% else
      if (lane == 0) {
        tma_store_3d(map_d, here, int(column_of(l, r)), int(row_of(l, r)), work.batch);
        tma_store_commit();
      }
      //% end
      //% else
      __syncwarp();
      fill_buffer(sums[s], chunk * (kChunk / 8), here, lane, exact);
      __syncwarp();
      drain_buffer(here, out, row_of(l, r), column_of(l, r), lane);
      //% end
    }
  //% end
  //% if amax
  raise_amax(out.amax, out.largest);
  //% end
}
//% end
