// The warpgroup that copies: bulk tensor copies of both operands into the ring. Expects abi.h,
//% if tma_scales
// hopper_ptx.h, grid_ptx.h, tile_scheduler.h, ring.h, tma_scales.h.
//% else
// hopper_ptx.h, grid_ptx.h, tile_scheduler.h, ring.h.
//% end
#pragma once

/// Copies this block's share of one operand's rows and hands it to every block that needs it.
//% if clip
/// `rows` of them exist from `row` on; `last` is the map whose box ends with them.
//% end
template <bool AcrossK, int Rows, int Sharers>
KILN_DEVICE void copy_rows(u32 to, const KilnTensorMap* map,
                           //% if clip
                           const KilnTensorMap* last, int rows,
                           //% end
                           u32 barrier, int row, int k, int batch, u32 share, u16 mask, u64 hint) {
  if constexpr (AcrossK) {
    //% if left_registers
    // Boxes of 32 rows by a share of the stage's k, k being the slow direction.
    constexpr int kShare = kDepth / Sharers;
    const u32 offset = share * kShare * 128;
    _Pragma("unroll") for (int block = 0; block < Rows / kLeftBlockRows; ++block) {
      const u32 there = to + block * kDepth * 128 + offset;
      const int first = row + block * kLeftBlockRows;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, first, k + int(share) * kShare, batch, mask,
                              hint);
      else
        tma_load_3d(there, map, barrier, first, k, batch, hint);
    }
    //% else
    // Boxes of 64 rows by a share of the stage's k, k being the slow direction.
    constexpr int kShare = kDepth / Sharers;
    const u32 offset = share * kShare * 128;
    _Pragma("unroll") for (int block = 0; block < (Rows + 63) / 64; ++block) {
      const u32 there = to + block * 64 * 128 + offset;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, row + block * 64, k + int(share) * kShare, batch,
                              mask, hint);
      else
        tma_load_3d(there, map, barrier, row + block * 64, k, batch, hint);
    }
    //% end
  } else {
    constexpr int kShare = Rows / Sharers;
    //% if clip
    const int mine = rows - int(share) * kShare;
    if (mine <= 0) return;
    if (mine < kShare) map = last;
    //% end
    if constexpr (Sharers > 1)
      tma_load_multicast_3d(to + share * kShare * 128, map, barrier, k, row + int(share) * kShare,
                            batch, mask, hint);
    else
      tma_load_3d(to, map, barrier, k, row, batch, hint);
  }
}

//% if k_groups && !k_group_edges
/// As copy_rows(), of lines that end where the group's k does, at `end`. A stage that is not full
/// has its lines last, behind zeros. The map's second dimension is a box's lines, its third all of
/// k: the coordinate of the third is the first line that counts, and the zeros lie before the
/// first of the second.
template <int Rows, int Sharers>
KILN_DEVICE void copy_lines(u32 to, const KilnTensorMap* map, u32 barrier, int row, int k, int end,
                            u32 share, u16 mask, u64 hint) {
  constexpr int kShare = kDepth / Sharers;
  const int first = max(0, min(kDepth, end - k)) - kDepth + int(share) * kShare;  // from k
  const int zeros = max(0, -first), line = k + max(0, first);
  _Pragma("unroll") for (int block = 0; block < (Rows + 63) / 64; ++block) {
    const u32 there = to + block * 64 * 128 + share * kShare * 128;
    if constexpr (Sharers > 1)
      tma_load_multicast_3d(there, map, barrier, row + block * 64, -zeros, line, mask, hint);
    else
      tma_load_3d(there, map, barrier, row + block * 64, -zeros, line, hint);
  }
}

//% end
//% if gate
/// Lines of one block's tile of B: units of each factor's lines in turn.
constexpr int kUnit = kSwap ? kWarpgroupRows / 2 : kRightTile / 2;

/// As copy_rows(), of B's two factors, which the map counts as batches. `line`: of either factor.
template <bool AcrossK, int Lines, int Sharers>
KILN_DEVICE void copy_factors(u32 to, const KilnTensorMap* map, u32 barrier, int line, int k,
                              int batch, u32 share, u16 mask, u64 hint) {
  constexpr int kUnits = Lines / kUnit / Sharers, kBox = AcrossK ? 64 : kUnit;
  _Pragma("unroll") for (int i = 0; i < kUnits; ++i) {
    const int unit = int(share) * kUnits + i;
    _Pragma("unroll") for (int at = 0; at < kUnit; at += kBox) {
      const u32 there = to + (unit * kUnit + at) * 128;
      const int first = line + unit / 2 * kUnit + at, factor = batch * 2 + unit % 2;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, AcrossK ? first : k, AcrossK ? k : first, factor,
                              mask, hint);
      else
        tma_load_3d(there, map, barrier, AcrossK ? first : k, AcrossK ? k : first, factor, hint);
    }
  }
}

//% end
KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  //% if gate
  const int left_rows = int(kSwap ? 2 * args.n : args.m);
  const int right_rows = int(kSwap ? args.m : 2 * args.n);
  //% else
  const int left_rows = int(kSwap ? args.n : args.m), right_rows = int(kSwap ? args.m : args.n);
  //% end
  return TileScheduler::start(
      (left_rows + kLeftTile * kClusterLeft - 1) / (kLeftTile * kClusterLeft),
      (right_rows + kRightTile * kClusterRight - 1) / (kRightTile * kClusterRight),
      (int(args.k) + kDepth - 1) / kDepth, int(args.batch), rank);
}

//% if row_groups
/// Clusters' tiles across the lines of B.
KILN_DEVICE int tiles_across(const KilnGpuArgs& args) {
  //% if gate
  const int lines = int(2 * args.n);
  //% else
  const int lines = int(args.n);
  //% end
  constexpr int kLines = kSwap ? kLeftTile * kClusterLeft : kRightTile * kClusterRight;
  return (lines + kLines - 1) / kLines;
}
//% end

//% if lists
/// The tensor maps of the product that is copied.
struct ProductMaps {
  const KilnTensorMap *left, *right;
  int product = -1;
  int place;  // of the product along the maps' third dimension: beyond the only one lie zeros

  /// Both maps were made for this call, where those of the call before lay.
  __device__ __forceinline__ void turn_to(const KilnGpuArgs& args, const Groups& groups, int next) {
    if (next == product) return;
    product = next;
    left = maps_of(args, next);
    right = left + 1;
    tensor_map_acquire(left);
    tensor_map_acquire(right);
    place = groups.stages_of(next) == 0 ? 1 : 0;
    // Whoever stores the product's D reads the entry, which lies in two lines at most.
    prefetch_line(entries_of(args) + next);
    prefetch_line(&entries_of(args)[next].residual);
  }
};

//% end
//% if clip
/// The maps of both operands; `last_` ones end with the operand's rows.
struct Maps {
  const KilnTensorMap *left, *right, *last_left, *last_right;
  //% if tma_scales
  const KilnTensorMap *scale_a, *scale_b;
  //% end
};

/// How many of a tile's rows exist.
template <int Tile>
KILN_DEVICE int rows_of(i64 rows, int tile) {
  return max(0, min(Tile, int(rows) - tile * Tile));
}

//% end
/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler,
                          //% if bring
                          const BroughtMaps& brought,
                          //% end
                          //% if bring && !clip
                          const KilnGpuArgs& args,
                          //% end
                          //% if clip
                          const KilnGpuArgs& args,
                          const Maps& maps
                          //% end
                          //% if !clip && tma_scales
                          const KilnTensorMap* left,
                          const KilnTensorMap* right, const KilnTensorMap* scale_a,
                          const KilnTensorMap* scale_b
                          //% end
                          //% if !clip && !tma_scales && lists
                          const KilnGpuArgs& args
                          //% end
                          //% if !clip && !tma_scales && !lists
                          const KilnTensorMap* left,
                          const KilnTensorMap* right
                          //% end
) {
  //% if !clip && !tma_scales && lists
  ProductMaps maps;
  //% end
  const u32 rank_left = scheduler.rank % kClusterLeft, rank_right = scheduler.rank / kClusterLeft;
  // The blocks with my rows of the left operand, and those with my rows of the right one.
  const u16 same_left = kClusterRight > 1 ? (1 << kCluster) - 1 : 1;
  const u16 same_right = kClusterLeft > 1 ? (1 << kCluster) - 1 : 1;
  Turn turn;
  //% if bring && pingpong
  PartTurn parts;
  //% end
  Work work;
  bool more = scheduler.take(work);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  for (; more; more = scheduler.take(work)) {
    //% if clip
    //% if clip_left
    const int left_rows = rows_of<kLeftTile>(kSwap ? args.n : args.m, work.left);
    //% else
    constexpr int left_rows = kLeftTile;
    //% end
    //% if clip_right
    const int right_rows = rows_of<kRightTile>(kSwap ? args.m : args.n, work.right);
    const u32 bytes = (left_rows + right_rows) * 128;
    //% else
    constexpr int right_rows = kRightTile;
    const u32 bytes = left_rows * 128 + kRightBytes;
    //% end
    //% end
    //% if lists
    maps.turn_to(args, scheduler.groups, work.batch);
    //% end
    //% if groups && masked
    const int batch_of_a = work.batch;
    //% end
    //% if row_groups && !masked
    constexpr int batch_of_a = 0;
    //% end
    for (int i = 0; i < work.count; ++i) {
      //% if bring && pingpong
      // Late, so that the other warpgroup has read its tile's, and early enough to be there in
      // time.
      if (i == max(0, work.count - 1 - kStages)) bring_tile(shared, parts, args, brought, work);
      //% end
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      //% if k_groups && !k_group_edges
      const int k = work.first_k + i * kDepth, end = work.first_k + work.k;
      //% else
      const int k = (work.begin + i) * kDepth;
      //% end
      //% if clip
      //% if tma_scales
      mbarrier_expect(barrier, bytes + (i % kScaleStages == 0 ? kCopiedScaleBytes : 0));
      if (i % kScaleStages == 0)
        copy_scales(shared.scales + turn.scales, barrier, maps.scale_a, maps.scale_b,
                    work.left * kLeftTile, work.batch, work.right * kRightTile, work.batch,
                    work.begin + i);
      //% else
      mbarrier_expect(barrier, bytes);
      //% end
      //% if gate && swap
      copy_factors<kLeftAcrossK, kLeftTile, kClusterRight>(
          to, maps.left, barrier, work.left * (kLeftTile / 2), k, work.batch, rank_right, same_left,
          kLeftHint);
      //% else
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(
          to, maps.left, maps.last_left, left_rows, barrier, work.left * kLeftTile, k, work.batch,
          rank_right, same_left, kLeftHint);
      //% end
      //% if gate && !swap
      copy_factors<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, maps.right, barrier, work.right * (kRightTile / 2), k, work.batch,
          rank_left, same_right, kRightHint);
      //% else
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, maps.right, maps.last_right, right_rows, barrier,
          work.right * kRightTile, k, work.batch, rank_left, same_right, kRightHint);
      //% end
      //% else
      //% if tma_scales
      mbarrier_expect(barrier, kStageBytes + (i % kScaleStages == 0 ? kCopiedScaleBytes : 0));
      if (i % kScaleStages == 0)
        //% if groups
        copy_scales(shared.scales + turn.scales, barrier, scale_a, scale_b,
                    work.first_row + work.left * kLeftTile, batch_of_a, work.right * kRightTile,
                    work.batch, work.begin + i);
      //% else
      copy_scales(shared.scales + turn.scales, barrier, scale_a, scale_b, work.left * kLeftTile,
                  work.batch, work.right * kRightTile, work.batch, work.begin + i);
      //% end
      //% else
      //% if gather_copies
      mbarrier_expect(barrier, kSwap ? kLeftBytes : kRightBytes);
      //% else
      mbarrier_expect(barrier, kStageBytes);
      //% end
      //% end
      //% if halves
      _Pragma("unroll") for (int part = 0; part < 2; ++part) {
        const int batch = work.batch * 2 + part;
        copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to + part * kLeftBytes, left, barrier,
                                                          work.left * kLeftTile, k, batch,
                                                          rank_right, same_left, kLeftHint);
        copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(
            to + 2 * kLeftBytes + part * kRightBytes, right, barrier, work.right * kRightTile, k,
            batch, rank_left, same_right, kRightHint);
      }
      //% else
      //% if k_group_edges
      // What is of other groups the warps that multiply clear (edges.h).
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k,
                                                        0, rank_right, same_left, kLeftHint);
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier,
                                                         work.right * kRightTile, k, 0, rank_left,
                                                         same_right, kRightHint);
      //% else
      //% if k_groups
      copy_lines<kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k, end,
                                           rank_right, same_left, kLeftHint);
      copy_lines<kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier, work.right * kRightTile,
                                           k, end, rank_left, same_right, kRightHint);
      //% else
      //% if lists
      //% if gate && swap
      copy_factors<kLeftAcrossK, kLeftTile, kClusterRight>(
          to, maps.left, barrier, work.left * (kLeftTile / 2), k, maps.place, rank_right, same_left,
          kLeftHint);
      //% else
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, maps.left, barrier,
                                                        work.left * kLeftTile, k, maps.place,
                                                        rank_right, same_left, kLeftHint);
      //% end
      //% if gate && !swap
      copy_factors<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, maps.right, barrier, work.right * (kRightTile / 2), k, maps.place,
          rank_left, same_right, kRightHint);
      //% else
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, maps.right, barrier,
                                                         work.right * kRightTile, k, maps.place,
                                                         rank_left, same_right, kRightHint);
      //% end
      //% else
      //% if gate && swap
      copy_factors<kLeftAcrossK, kLeftTile, kClusterRight>(
          to, left, barrier, work.left * (kLeftTile / 2), k, work.batch, rank_right, same_left,
          kLeftHint);
      //% else
      //% if groups && !swap
      //% if !gather_copies
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(
          to, left, barrier, work.first_row + work.left * kLeftTile, k, batch_of_a, rank_right,
          same_left, kLeftHint);
      //% end
      //% else
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k,
                                                        work.batch, rank_right, same_left,
                                                        kLeftHint);
      //% end
      //% end
      //% if gate && !swap
      copy_factors<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, right, barrier, work.right * (kRightTile / 2), k, work.batch, rank_left,
          same_right, kRightHint);
      //% else
      //% if groups && swap
      //% if !gather_copies
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, right, barrier, work.first_row + work.right * kRightTile, k, batch_of_a,
          rank_left, same_right, kRightHint);
      //% end
      //% else
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier,
                                                         work.right * kRightTile, k, work.batch,
                                                         rank_left, same_right, kRightHint);
      //% end
      //% end
      //% end
      //% end
      //% end
      //% end
      //% end
      turn.step();
    }
    //% if bring && pingpong
    if (work.count == 0) bring_tile(shared, parts, args, brought, work);
    //% end
    //% if bring && !pingpong
    bring_tile(shared, turn, args, brought, work);
    //% end
  }
}
