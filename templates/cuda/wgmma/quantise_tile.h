// A tile of D as codes. Included by quantise.h, for gated products in a namespace whose sizes are
// those of D's tile. Expects epilogue.h, store.h and, where the scales follow from D,
// quantise_ptx.h.
#pragma once

//% if scale_d == tensor
/// A warpgroup's values become numbers of D's type times their scale.
KILN_DEVICE void divide_by_scales(Acc (&sums)[kSubtiles][kSums], const Output& out) {
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int i = 0; i < kSums; ++i)
      sums[s][i] = kept(product(real_of(sums[s][i]), out.inverse_d));
}
//% else
//% if scale_d == line
constexpr int kShareOfD = kSwap ? kLeftTile : kRightTile;  // columns of a tile that share a scale
//% else
constexpr int kShareOfD = 128;  // columns that share a scale
//% end
//% if scale_pairs
static_assert(!kSwap && kRightTile % 128 == 64 && kClusterRight == 2 && kClusterLeft == 1,
              "two tiles of a cluster have whole blocks of columns");
//% else
static_assert((kSwap ? kLeftTile : kRightTile) % kShareOfD == 0,
              "a tile has whole blocks of columns");
//% end

/// NaN does not count.
KILN_DEVICE float larger(float largest, float value) { return max(largest, fabsf(value)); }

/// Of `Count` lanes, `Apart` from each other, each brings as many numbers: the largest of all i-th
/// ones goes to the i-th lane.
template <int Count, int Apart>
KILN_DEVICE float largest_of_lanes(const float (&x)[Count], int lane) {
  if constexpr (Count == 1) {
    return x[0];
  } else {
    constexpr int kHalf = Count / 2;
    const bool upper = (lane & kHalf * Apart) != 0;
    float y[kHalf];
    _Pragma("unroll") for (int i = 0; i < kHalf; ++i) {
      const float keep = upper ? x[i + kHalf] : x[i], give = upper ? x[i] : x[i + kHalf];
      y[i] = max(keep, __shfl_xor_sync(0xffffffff, give, kHalf * Apart));
    }
    return largest_of_lanes<kHalf, Apart>(y, lane);
  }
}

KILN_DEVICE void write_scale(const Output& out, i64 row, i64 column, float scale) {
  if (row < out.rows && column < out.columns)
    out.scale_d[row * out.scales_of_row + column / kShareOfD] = scale;
}

//% if swap
/// Rows of the left operand are D's columns: those of a block belong to lanes, warps and, where a
/// warpgroup has but 64 of them, to warpgroups. `largest_of`: a float for each warp and each row of
/// the tile of D, and behind them one for each warpgroup and row.
KILN_DEVICE void divide_by_scales(Acc (&sums)[kSubtiles][kSums], const Output& out, i64 left,
                                  i64 right, u32 largest_of, int group, int thread) {
  constexpr int kMine = kSubtiles * 64;  // columns of a warpgroup
  constexpr int kBlocks = kMine < kShareOfD ? 1 : kMine / kShareOfD;
  constexpr int kOfBlock = kSubtiles / kBlocks;                        // subtiles
  constexpr int kSharers = kMine < kShareOfD ? kShareOfD / kMine : 1;  // warpgroups
  constexpr int kRows = kSums / 2;                                     // of a lane
  const int lane = thread & 31, first = group / kSharers * kSharers;
  const u32 mine = largest_of + u32(group * 4 + thread / 32) * (kRightTile * 4);
  const u32 others = largest_of + u32(first * 4) * (kRightTile * 4);
  const u32 inverses = largest_of + u32(kWarpgroups * 4 + first) * (kRightTile * 4);
  const i64 first_left = left - thread / 32 * 16 - lane / 4 - (group - first) * kMine;
  const i64 first_right = right - lane % 4 * 2;
  const auto row_at = [&](int r, int of_lane) { return r / 2 * 8 + r % 2 + of_lane % 4 * 2; };
  _Pragma("unroll") for (int b = 0; b < kBlocks; ++b) {
    // Eight lanes have a row's columns: each finds the largest of one row of eight.
    _Pragma("unroll") for (int eight = 0; eight < kRows; eight += 8) {
      float largest[8];
      _Pragma("unroll") for (int r = 0; r < 8; ++r) {
        largest[r] = 0;
        if (eight + r >= kRows) continue;
        const int i = (eight + r) / 2 * 4 + r % 2;
        _Pragma("unroll") for (int s = b * kOfBlock; s < (b + 1) * kOfBlock; ++s)
          _Pragma("unroll") for (int half = 0; half < 2; ++half)
            if (left + s * 64 + half * 8 < out.columns)
              largest[r] = larger(largest[r], real_of(sums[s][i + half * 2]));
      }
      const float all = largest_of_lanes<8, 4>(largest, lane);
      if (eight + lane / 4 < kRows)
        store_largest(mine + u32(row_at(eight + lane / 4, lane)) * 4, all);
    }
    named_barrier_sync(kGroupBarrier + first, kSharers * 128);
    // A thread finds the scale of a row for all of them.
    for (int row = (group - first) * 128 + thread; row < kRightTile; row += kSharers * 128) {
      float largest = 0;
      _Pragma("unroll") for (int warp = 0; warp < kSharers * 4; ++warp)
        largest = larger(largest, load_largest(others + u32(warp * kRightTile + row) * 4));
      const float scale = scale_for(largest), inverse = 1.0f / scale;
      write_scale(out, first_right + row, first_left + b * kShareOfD, scale);
      store_largest(inverses + u32(row) * 4, inverse);
    }
    // Whoever writes the next block's largest ones has read this one's, and whoever writes its
    // reciprocals waits at the barrier above for those who read these.
    named_barrier_sync(kGroupBarrier + first, kSharers * 128);
    _Pragma("unroll") for (int r = 0; r < kRows; ++r) {
      const int i = r / 2 * 4 + r % 2;
      const float inverse = load_largest(inverses + u32(row_at(r, lane)) * 4);
      _Pragma("unroll") for (int s = b * kOfBlock; s < (b + 1) * kOfBlock; ++s)
        _Pragma("unroll") for (int half = 0; half < 2; ++half)
          sums[s][i + half * 2] = kept(product(real_of(sums[s][i + half * 2]), inverse));
    }
  }
}
//% else
constexpr int kRowsOfLane = kSubtiles * 2;
//% if scale_pairs
constexpr int kPiece = 32;  // sums of two rows: half of a block
constexpr int kPieces = kSums / kPiece, kBlocks = (kPieces + 1) / 2;

/// The block that a piece of the tile belongs to. Both tiles of a cluster have block 0, the first
/// one behind its own blocks, the second one before them.
KILN_DEVICE constexpr int block_of(int piece, bool second) {
  return second ? (piece + 1) / 2 : piece + 1 == kPieces ? 0 : piece / 2 + 1;
}
/// Where a block begins in the tile.
KILN_DEVICE constexpr int begin_of(int block, bool second) {
  return second ? block * 128 - 64 : block > 0 ? block * 128 - 128 : kRightTile - 64;
}
//% else
constexpr int kPiece = kShareOfD / 2;  // sums of two rows
constexpr int kPieces = kSums / kPiece, kBlocks = kPieces;
KILN_DEVICE constexpr int block_of(int piece, bool) { return piece; }
KILN_DEVICE constexpr int begin_of(int block, bool) { return block * kShareOfD; }
//% end
constexpr int kScales = kBlocks * kRowsOfLane;  // of a lane's rows
constexpr int kFours = (kScales + 3) / 4;

//% if scale_pairs
/// Each warp exchanges the largest magnitudes of block 0 with the warp of the other tile that has
/// the same rows. Two places in turn: before a warp sends to a place again, it has received what
/// the other sent after reading that place. `largest`: of four rows in four lanes each, block 0
/// first.
KILN_DEVICE void meet_other_tile(float (&largest)[kFours], const Work& work, u32 buffers, u32 tile,
                                 int warp, int lane) {
  const u32 place = u32(warp) * 2 + tile % 2, other = 1 - u32(work.right) % 2;
  const u32 here = buffers + kMeetingAt + place * kMeetingBytes;
  const u32 barrier = buffers + kMeetingBarriersAt + place * 8;
  if (lane == 0) mbarrier_expect(barrier, kMeetingBytes);
  _Pragma("unroll") for (int four = 0; four * 4 < kRowsOfLane; ++four) {
    const int row = four * 4 + lane % 4;
    if (row < kRowsOfLane)
      send_largest(here + u32(lane / 4 * kRowsOfLane + row) * 4, largest[four], barrier, other);
  }
  mbarrier_wait(barrier, tile / 2 % 2);
  _Pragma("unroll") for (int four = 0; four * 4 < kRowsOfLane; ++four) {
    const int row = four * 4 + lane % 4;
    if (row < kRowsOfLane)
      largest[four] =
          max(largest[four], load_largest(here + u32(lane / 4 * kRowsOfLane + row) * 4));
  }
}

//% end
/// Four lanes have a row's columns: each finds the scale of one of its rows for all four.
KILN_DEVICE void divide_by_scales(Acc (&sums)[kSubtiles][kSums],
                                  //% if scale_pairs
                                  const Work& work,
                                  //% end
                                  const Output& out, i64 left, i64 right,
                                  //% if scale_pairs
                                  u32 buffers, u32 tile, int group,
                                  //% end
                                  int thread) {
  //% if scale_pairs
  const bool second = work.right % 2 != 0;
  //% else
  constexpr bool second = false;
  //% end
  const int lane = thread & 31;
  const i64 first_right = right - lane % 4 * 2;
  //% if clip_right || bias || zero_a
  // Columns that do not exist hold more than zeros.
  const int columns = int(max(i64(0), min(out.columns - right, i64(kRightTile))));
  //% end
  float largest[kFours], inverse[kFours * 4];
  _Pragma("unroll") for (int four = 0; four < kFours; ++four) {
    float of_row[4];
    _Pragma("unroll") for (int j = 0; j < 4; ++j) {
      const int item = four * 4 + j, b = item / kRowsOfLane, s = item % kRowsOfLane / 2;
      of_row[j] = 0;
      if (item >= kScales) continue;
      _Pragma("unroll") for (int piece = 0; piece < kPieces; ++piece) {
        if (block_of(piece, false) != b && block_of(piece, true) != b) continue;
        float of_piece = 0;
        _Pragma("unroll") for (int i = piece * kPiece; i < (piece + 1) * kPiece; i += 4)
          _Pragma("unroll") for (int e = 0; e < 2; ++e)
            //% if clip_right || bias || zero_a
            if (i * 2 + e < columns)
              //% end
              of_piece = larger(of_piece, real_of(sums[s][i + j % 2 * 2 + e]));
        if (block_of(piece, second) == b) of_row[j] = max(of_row[j], of_piece);
      }
    }
    largest[four] = largest_of_lanes<4, 1>(of_row, lane);
  }
  //% if scale_pairs
  meet_other_tile(largest, work, buffers, tile, group * 4 + thread / 32, lane);
  //% end
  _Pragma("unroll") for (int four = 0; four < kFours; ++four) {
    const int item = four * 4 + lane % 4, b = item / kRowsOfLane, row = item % kRowsOfLane;
    const float scale = scale_for(largest[four]), mine = 1.0f / scale;
    // The first tile has the first columns of the block that both have.
    if (item < kScales && !(second && b == 0))
      write_scale(out, left + row / 2 * 64 + row % 2 * 8, first_right + begin_of(b, second), scale);
    _Pragma("unroll") for (int j = 0; j < 4; ++j)
      inverse[four * 4 + j] = __shfl_sync(0xffffffff, mine, lane / 4 * 4 + j);
  }
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int half = 0; half < 2; ++half)
      _Pragma("unroll") for (int piece = 0; piece < kPieces; ++piece) {
        const int row = s * 2 + half;
        const float x = second ? inverse[block_of(piece, true) * kRowsOfLane + row]
                               : inverse[block_of(piece, false) * kRowsOfLane + row];
        _Pragma("unroll") for (int i = piece * kPiece; i < (piece + 1) * kPiece; i += 4)
          _Pragma("unroll") for (int e = half * 2; e < half * 2 + 2; ++e)
            sums[s][i + e] = kept(product(real_of(sums[s][i + e]), x));
      }
}
//% end
//% end

//% if store == tma
/// Two codes, the first in the low byte.
template <typename Code>
KILN_DEVICE u32 pack_codes(Real low, Real high, Code) {
  return pack_two(low, high, Code{});
}
//% if scale_d != tensor
/// The low byte of x + 1.5 * 2^23 is x to the nearest integer: an instruction that converts takes
/// eight times as long. What follows from the scale is in the code's range; NaN becomes 0.
KILN_DEVICE u32 code_of(float x) { return u32(__float_as_int((x == x ? x : 0.0f) + 0x1.8p23f)); }
KILN_DEVICE u32 pack_codes(Real low, Real high, i8) {
  return __byte_perm(code_of(low), code_of(high), 0x0040);
}
//% end
//% if swap
/// Codes of a warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into a buffer.
KILN_DEVICE void fill_codes(const Acc (&sums)[kSums], int j, u32 buffer, int lane) {
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; ++g)
    _Pragma("unroll") for (int half = 0; half < 2; ++half) {
      const int i = (j + g) * 4 + half * 2, left = lane / 4 + half * 8,
                right = g * 8 + lane % 4 * 2;
      const u32 two = pack_codes(real_of(sums[i]), real_of(sums[i + 1]), TypeD{});
      store_shared_code(buffer + swizzled(right, 0) + left, two);
      store_shared_code(buffer + swizzled(right + 1, 0) + left, two >> 8);
    }
}
//% else
/// Codes of a warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into the buffer at
/// `buffer` of the warp's. `units`: a lane's places in the units of 16 bytes of the first one,
/// whose swizzle is the same eight rows on.
KILN_DEVICE void fill_codes(const Acc (&sums)[kSums], int j, const u32 (&units)[kChunk / 16],
                            u32 buffer) {
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; ++g)
    _Pragma("unroll") for (int half = 0; half < 2; ++half) {
      const int i = (j + g) * 4 + half * 2;
      const u32 two = pack_codes(real_of(sums[i]), real_of(sums[i + 1]), TypeD{});
      store_shared_codes(units[g / 2] + buffer + half * 8 * kPitch + g % 2 * 8, two);
    }
}
//% end

/// A warp's 16 left rows by kRightTile right rows; (left, right) is D's element at their beginning.
KILN_DEVICE void copy_codes(const Acc (&sums)[kSums], const Work& work, const KilnGpuArgs& args,
                            const Output& out, const KilnTensorMap* map_d, u32 buffers, i64 left,
                            i64 right, int s, int lane) {
  //% if row_groups
  //% if masked
  const int first_row = work.batch * int(args.stride_d / args.ldd);
  //% else
  const int first_row = work.first_row;
  //% end
  //% end
  constexpr int kChunks = kRightTile / kChunk;
  //% if !swap
  u32 units[kChunk / 16];
  _Pragma("unroll") for (int u = 0; u < kChunk / 16; ++u)
    units[u] = buffers + swizzled(lane / 4, u) + lane % 4 * 2;
  //% end
  _Pragma("unroll") for (int chunk = 0; chunk < kChunks; ++chunk) {
    const u32 buffer = (s * kChunks + chunk) % kStoreBuffers * kBufferBytes;
    const u32 here = buffers + buffer;
    const i64 r = right + chunk * kChunk;
    // An odd number of chunks leaves the first buffer to the last store of the tile before.
    if (lane == 0) {
      if (s == 0 && chunk == 0)
        tma_store_wait_read<0>();
      else
        tma_store_wait_read<kStoreBuffers - 1>();
    }
    __syncwarp();
    //% if swap
    fill_codes(sums, chunk * (kChunk / 8), here, lane);
    //% else
    fill_codes(sums, chunk * (kChunk / 8), units, buffer);
    //% end
    fence_async_shared();
    __syncwarp();
    if (lane == 0) {
      //% if row_groups
      store_rows(map_d, here, out, row_of(left, r), column_of(left, r), first_row);
      //% else
      tma_store_3d(map_d, here, int(column_of(left, r)), int(row_of(left, r)), work.batch);
      //% end
      tma_store_commit();
    }
  }
}

//% end
/// One warpgroup's part of a tile of D, whose rows of the left operand start at `row_offset`;
/// `tile` says how many it has stored.
KILN_DEVICE void store_codes(Acc (&sums)[kSubtiles][kSums], const Work& work,
                             const KilnGpuArgs& args, const Output& out, const KilnTensorMap* map_d,
                             u32 buffers, u32 row_offset, int group, int thread, u32 tile) {
  const int warp = thread / 32, lane = thread & 31;
  const i64 left = i64(work.left) * kLeftTile + row_offset + warp * 16;
  const i64 right = i64(work.right) * kRightTile;
  const i64 my_left = left + lane / 4, my_right = right + lane % 4 * 2;
  //% if !gate || amax
  //% if integer || gate || line_scale_a || line_scale_b || expressed || amax
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int i = 0; i < kSums; i += kTogether)
      finish_sums(sums[s], out, my_left + s * 64, my_right, i);
  //% else
  if (out.alpha != Real(1))
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      _Pragma("unroll") for (int i = 0; i < kSums; i += kTogether)
        finish_sums(sums[s], out, my_left + s * 64, my_right, i);
  //% end
  //% end
  //% if scale_d == tensor
  divide_by_scales(sums, out);
  //% else
  //% if swap
  divide_by_scales(sums, out, my_left, my_right, buffers + kLargestAt, group, thread);
  //% else
  //% if scale_pairs
  divide_by_scales(sums, work, out, my_left, my_right, buffers, tile, group, thread);
  //% else
  divide_by_scales(sums, out, my_left, my_right, thread);
  //% end
  //% end
  //% end
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    //% if store == tma
    copy_codes(sums[s], work, args, out, map_d,
               buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes, left + s * 64, right,
               s, lane);
  //% else
  store_direct(sums[s], out, my_left + s * 64, my_right, false);
  //% end
  //% if amax
  raise_amax(out.amax, out.largest);
  //% end
}
