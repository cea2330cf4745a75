//% if scale_d && !summed
//% if scale_d == tensor
// D as codes with one scale for all.
//% else
// D as codes, with the scales that follow from it: columns that share one are of one block's tile.
//% end
// Expects epilogue.h, store.h and, where the scales follow from D, quantise_ptx.h.
#pragma once

//% if gate
namespace of_d {
//% end
//% if scale_d == tensor
/// A warpgroup's values become numbers of D's type times their scale. (left, right) is D's under
/// sum 0.
KILN_DEVICE void divide_by_scales(Acc (&sums)[kSubtiles][kSums], const Output& out, i64 left,
                                  i64 right, u32 largest_of, int group, int thread) {
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
static_assert((kSwap ? kLeftTile : kRightTile) % kShareOfD == 0, "a tile has whole blocks of columns");

/// NaN does not count.
KILN_DEVICE float larger(float largest, float value) {
  const float magnitude = fabsf(value);
  return magnitude > largest ? magnitude : largest;
}

KILN_DEVICE void write_scale(const Output& out, i64 row, i64 column, float scale) {
  if (row < out.rows && column < out.columns)
    out.scale_d[row * out.scales_of_row + column / kShareOfD] = scale;
}

//% if swap
/// Rows of the left operand are D's columns: those of a block belong to lanes, warps and, where a
/// warpgroup has but 64 of them, to warpgroups. `largest_of`: a float for each warp and each row of
/// the tile of D.
KILN_DEVICE void divide_by_scales(Acc (&sums)[kSubtiles][kSums], const Output& out, i64 left,
                                  i64 right, u32 largest_of, int group, int thread) {
  constexpr int kMine = kSubtiles * 64;  // columns of a warpgroup
  constexpr int kBlocks = kMine < kShareOfD ? 1 : kMine / kShareOfD;
  constexpr int kOfBlock = kSubtiles / kBlocks;                         // subtiles
  constexpr int kSharers = kMine < kShareOfD ? kShareOfD / kMine : 1;  // warpgroups
  const int lane = thread & 31, first = group / kSharers * kSharers;
  const u32 mine = largest_of + u32(group * 4 + thread / 32) * (kRightTile * 4);
  const u32 others = largest_of + u32(first * 4) * (kRightTile * 4);
  _Pragma("unroll") for (int b = 0; b < kBlocks; ++b) {
    _Pragma("unroll") for (int r = 0; r < kSums / 2; ++r) {
      const int i = r / 2 * 4 + r % 2;
      float largest = 0;
      _Pragma("unroll") for (int s = b * kOfBlock; s < (b + 1) * kOfBlock; ++s)
        _Pragma("unroll") for (int half = 0; half < 2; ++half)
          if (left + s * 64 + half * 8 < out.columns)
            largest = larger(largest, real_of(sums[s][i + half * 2]));
      _Pragma("unroll") for (int apart = 4; apart < 32; apart *= 2)
        largest = larger(largest, __shfl_xor_sync(0xffffffff, largest, apart));
      if (lane < 4) store_largest(mine + u32(r / 2 * 8 + r % 2 + lane * 2) * 4, largest);
    }
    named_barrier_sync(kGroupBarrier + first, kSharers * 128);
    _Pragma("unroll") for (int r = 0; r < kSums / 2; ++r) {
      const int i = r / 2 * 4 + r % 2, row = r / 2 * 8 + r % 2;
      float largest = 0;
      _Pragma("unroll") for (int warp = 0; warp < kSharers * 4; ++warp)
        largest = larger(largest,
                         load_largest(others + u32(warp * kRightTile + row + lane % 4 * 2) * 4));
      const float scale = scale_for(largest), inverse = 1.0f / scale;
      // The first column of the block is that of lane 0 of the first warp.
      if (thread < 4 && group == first) write_scale(out, right + row, left + b * kShareOfD, scale);
      _Pragma("unroll") for (int s = b * kOfBlock; s < (b + 1) * kOfBlock; ++s)
        _Pragma("unroll") for (int half = 0; half < 2; ++half)
          sums[s][i + half * 2] = kept(product(real_of(sums[s][i + half * 2]), inverse));
    }
    // The largest ones may be written again only when every thread has read them.
    named_barrier_sync(kGroupBarrier + first, kSharers * 128);
  }
}
//% else
/// Four lanes have a row's columns.
KILN_DEVICE void divide_by_scales(Acc (&sums)[kSubtiles][kSums], const Output& out, i64 left,
                                  i64 right, u32 largest_of, int group, int thread) {
  constexpr int kOfBlock = kShareOfD / 2;  // sums of two rows
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int half = 0; half < 2; ++half)
      _Pragma("unroll") for (int b = 0; b < kSums; b += kOfBlock) {
        float largest = 0;
        _Pragma("unroll") for (int i = b; i < b + kOfBlock; i += 4)
          _Pragma("unroll") for (int e = 0; e < 2; ++e)
            if (right + i * 2 + e < out.columns)
              largest = larger(largest, real_of(sums[s][i + half * 2 + e]));
        _Pragma("unroll") for (int apart = 1; apart < 4; apart *= 2)
          largest = larger(largest, __shfl_xor_sync(0xffffffff, largest, apart));
        const float scale = scale_for(largest), inverse = 1.0f / scale;
        if (thread % 4 == 0) write_scale(out, left + s * 64 + half * 8, right + b * 2, scale);
        _Pragma("unroll") for (int i = b; i < b + kOfBlock; i += 4)
          _Pragma("unroll") for (int e = half * 2; e < half * 2 + 2; ++e)
            sums[s][i + e] = kept(product(real_of(sums[s][i + e]), inverse));
      }
}
//% end
//% end

//% if store == tma
/// Codes of a warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into a buffer.
KILN_DEVICE void fill_codes(const Acc (&sums)[kSums], int j, u32 buffer, int lane) {
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; ++g)
    _Pragma("unroll") for (int half = 0; half < 2; ++half) {
      const int i = (j + g) * 4 + half * 2, left = lane / 4 + half * 8, right = g * 8 + lane % 4 * 2;
      const u32 two = pack_two(real_of(sums[i]), real_of(sums[i + 1]), TypeD{});
      //% if swap
      store_shared_code(buffer + swizzled(right, 0) + left, two);
      store_shared_code(buffer + swizzled(right + 1, 0) + left, two >> 8);
      //% else
      store_shared_codes(buffer + swizzled(left, right / 16) + right % 16, two);
      //% end
    }
}

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
  _Pragma("unroll") for (int chunk = 0; chunk < kChunks; ++chunk) {
    const u32 here = buffers + (s * kChunks + chunk) % kStoreBuffers * kBufferBytes;
    const i64 r = right + chunk * kChunk;
    // An odd number of chunks leaves the first buffer to the last store of the tile before.
    if (lane == 0) {
      if (s == 0 && chunk == 0)
        tma_store_wait_read<0>();
      else
        tma_store_wait_read<kStoreBuffers - 1>();
    }
    __syncwarp();
    fill_codes(sums, chunk * (kChunk / 8), here, lane);
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
/// One warpgroup's part of a tile of D, whose rows of the left operand start at `row_offset`.
KILN_DEVICE void store_codes(Acc (&sums)[kSubtiles][kSums], const Work& work,
                             const KilnGpuArgs& args, const Output& out,
                             const KilnTensorMap* map_d, u32 buffers, u32 row_offset, int group,
                             int thread) {
  const int warp = thread / 32, lane = thread & 31;
  const i64 left = i64(work.left) * kLeftTile + row_offset + warp * 16;
  const i64 right = i64(work.right) * kRightTile;
  const i64 my_left = left + lane / 4, my_right = right + lane % 4 * 2;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int i = 0; i < kSums; i += kTogether)
      finish_sums(sums[s], out, my_left + s * 64, my_right, i);
  //% if scale_d != tensor && swap
  divide_by_scales(sums, out, my_left, my_right, buffers + kLargestAt, group, thread);
  //% else
  divide_by_scales(sums, out, my_left, my_right, 0, group, thread);
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
//% if gate
}  // namespace of_d
//% end

/// One warpgroup's part of a tile, whose rows of the left operand start at `row_offset`.
KILN_DEVICE void store_quantised(Acc (&sums)[kSubtiles][kSums], const Work& work,
                                 const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                                 u32 row_offset, int group, int thread) {
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
  //% if gate
  const u32 first = kSwap ? row_offset / 2 : row_offset;
  Acc d[of_d::kSubtiles][of_d::kSums];
  pass_gate(d, sums, out,
            i64(work.left) * of_d::kLeftTile + first + thread / 32 * 16 + (thread & 31) / 4,
            i64(work.right) * of_d::kRightTile + (thread & 3) * 2);
  of_d::store_codes(d, work, args, out, map_d, buffers, first, group, thread);
  //% else
  store_codes(sums, work, args, out, map_d, buffers, row_offset, group, thread);
  //% end
}
//% end
