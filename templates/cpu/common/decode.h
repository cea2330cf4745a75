// Panels of B from weights of four or eight bits: codes become numbers, less zero points and times
// scales, while they are packed. Expects panels.h, kCodeBits, TypeScale and, unless whole columns
// share a scale, kGroupK, of which blocks of k hold whole ones or which hold whole runs.
#pragma once

//% if weights
/// B of one batch.
struct Weights {
  const u8* codes;
  i64 pitch;  // bytes between lines
  const TypeScale* scales;
  //% if zeros
  const void* zeros;
  //% end
  i64 first, groups;  // place of the batch's first scale; scales of a column
};

KILN_INLINE Weights weights_of(const KilnArgs& args, i64 batch) {
  Weights w;
  w.codes = static_cast<const u8*>(args.b) + batch * args.stride_b * kCodeBits / 8;
  w.pitch = args.ldb * kCodeBits / 8;
  w.scales = static_cast<const TypeScale*>(args.scale_b);
  //% if zeros
  w.zeros = args.zero_b;
  //% end
  //% if whole_column
  w.groups = 1;
  //% else
  w.groups = args.k / kGroupK;
  //% end
  //% if squares && gate
  w.first = batch * ((2 * args.n + kGroupColumns - 1) / kGroupColumns) * w.groups;
  //% end
  //% if squares && !gate
  w.first = batch * ((args.n + kGroupColumns - 1) / kGroupColumns) * w.groups;
  //% end
  //% if !squares && gate
  w.first = batch * 2 * args.n * w.groups;
  //% end
  //% if !squares && !gate
  w.first = batch * args.n * w.groups;
  //% end
  return w;
}

/// What the elements of a group are shifted and scaled by, a lane for each column of a panel.
struct Group {
  AccVec scale;
  //% if zeros
  AccVec zero;
  //% end
};

/// Of the group that holds k; missing columns repeat the last one.
KILN_INLINE Group group_of(const Weights& w, i64 column, int width, i64 k) {
  float scale[kLanes];
  //% if zeros
  float zero[kLanes];
  //% end
  for (int c = 0; c < kLanes; ++c) {
    //% if squares
    i64 at = w.first + (column + smaller(c, width - 1)) / kGroupColumns * w.groups;
    //% else
    i64 at = w.first + (column + smaller(c, width - 1)) * w.groups;
    //% end
    //% if !whole_column
    at += k / kGroupK;
    //% end
    scale[c] = load_real<2>(w.scales + at, 1)[0];
    //% if zeros && integer_zeros && code_bits == 4
    const int code = static_cast<const u8*>(w.zeros)[at / 2] >> (at % 2 * 4) & 15;
    //% if signed_codes
    zero[c] = float((code ^ 8) - 8);
    //% else
    zero[c] = float(code);
    //% end
    //% end
    //% if zeros && integer_zeros && code_bits == 8
    zero[c] = float(static_cast<const i8*>(w.zeros)[at]);
    //% end
    //% if zeros && !integer_zeros
    zero[c] = load_real<2>(static_cast<const TypeZero*>(w.zeros) + at, 1)[0];
    //% end
  }
  //% if zeros
  return {load<AccVec>(scale), load<AccVec>(zero)};
  //% else
  return {load<AccVec>(scale)};
  //% end
}

KILN_INLINE AccVec decoded(AccVec codes, const Group& group) {
  //% if zeros
  codes -= group.zero;
  //% end
  return codes * group.scale;
}

//% if code_bits == 4
template <typename V, int... I>
KILN_INLINE auto in_turns(V low, V high, Sequence<int, I...>) {
  return __builtin_shufflevector(low, high, (I / 2 + I % 2 * (kLanes / 2))...);
}
//% end

/// kLanes codes that lie side by side from the first of a byte on; `count` of them exist.
KILN_INLINE AccVec load_codes(const u8* from, i64 count) {
  count = smaller(count, kLanes);
  //% if code_bits == 4
  const auto bytes = load_first<kLanes / 2>(from, int((count + 1) / 2));
  auto codes = in_turns(bytes & 15, bytes >> 4, Iota<kLanes>{});
  //% if codes == e2m1
  const auto wide = __builtin_convertvector(codes, Vec<u32, kLanes>);
  return e2m1_to_float<kLanes>(bits_of<Vec<i32, kLanes>>(wide << 28));
  //% end
  //% if codes == integer && signed_codes
  return __builtin_convertvector(bits_of<Vec<i8, kLanes>>((codes ^ 8) - 8), AccVec);
  //% end
  //% if codes == integer && !signed_codes
  return __builtin_convertvector(codes, AccVec);
  //% end
  //% end
  //% if code_bits == 8 && codes == integer
  return __builtin_convertvector(load_first<kLanes>(reinterpret_cast<const i8*>(from), int(count)),
                                 AccVec);
  //% end
  //% if codes == e4m3
  using Words = Vec<u32, kLanes>;
  const Words wide = __builtin_convertvector(load_first<kLanes>(from, int(count)), Words);
  return e4m3_to_float<kLanes>(bits_of<Vec<i32, kLanes>>(wide << 24));
  //% end
}

//% if stacked && code_bits == 4 && !b_k_major
template <int... I>
KILN_INLINE AccVec from_second(AccVec low, AccVec high, Sequence<int, I...>) {
  return __builtin_shufflevector(low, high, (I + 1)...);
}

/// As load_codes(), from the second code of a byte on.
KILN_INLINE AccVec load_codes_within(const u8* from, i64 count) {
  const AccVec last = load_codes(from + kLanes / 2, count == kLanes ? 1 : 0);
  return from_second(load_codes(from, count + 1), last, Iota<kLanes>{});
}
//% end

/// Columns [column, column + width) over k from k0 on. A run of k lies in one group.
__attribute__((noinline)) static void pack_weights(Unit* to, const Weights& w, i64 k0, i64 column,
                                                   i64 columns, i64 k) {
  constexpr int kRun = 32;
  for (i64 run = 0; run < k; run += kRun) {
    const i64 end = smaller(run + kRun, k);
    for (i64 j = 0; j < columns; j += kLanes) {
      Unit* const panel = to + panels_units(j, k);
      const int width = int(smaller(kLanes, columns - j));
      const Group group = group_of(w, column + j, width, k0 + run);
      //% if b_k_major
      for (i64 p = run; p < end; p += kLanes) {
        Vec<Unit, kLanes> rows[kLanes];
        KILN_UNROLL
        for (int c = 0; c < kLanes; ++c)
          rows[c] = load_codes(
              w.codes + (column + j + smaller(c, width - 1)) * w.pitch + (k0 + p) * kCodeBits / 8,
              end - p);
        transpose<kLanes>(rows);
        KILN_UNROLL
        for (int r = 0; r < kLanes; ++r)
          if (p + r < end) store(panel + (p + r) * kLanes, decoded(rows[r], group));
      }
      //% else
      //% if stacked && code_bits == 4
      // The second factor's columns begin within a byte where D has an odd number of them.
      const bool within = column % 2 != 0;
      for (i64 p = run; p < end; ++p) {
        const u8* const from = w.codes + (k0 + p) * w.pitch + (column + j) / 2;
        store(panel + p * kLanes,
              decoded(within ? load_codes_within(from, width) : load_codes(from, width), group));
      }
      //% else
      for (i64 p = run; p < end; ++p)
        store(
            panel + p * kLanes,
            decoded(load_codes(w.codes + (k0 + p) * w.pitch + (column + j) * kCodeBits / 8, width),
                    group));
      //% end
      //% end
    }
  }
  end_panels(to, columns, k);
}
//% end
