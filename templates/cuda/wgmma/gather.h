//% if gather_copies
// Rows of A by index, which the copy engine cannot address: three warps of the warpgroup that
// copies bring them, swizzled as the copy engine would. Expects abi.h, indices.h, gather_ptx.h,
// tile_scheduler.h, ring.h.
#pragma once

constexpr int kGatherWarps = 3;
constexpr int kGatherRows = kSwap ? kRightTile : kLeftTile;  // of a stage
constexpr int kRowsAtOnce = kGatherWarps * 4;                // eight lanes bring a row's 128 bytes
constexpr int kGatherPasses = (kGatherRows + kRowsAtOnce - 1) / kRowsAtOnce;

/// Each lane arrives at the barrier of a place of the ring when its copies have come.
KILN_DEVICE void copy_gathered(const Shared& shared, TileScheduler scheduler,
                               const KilnGpuArgs& args, int warp, int lane) {
  constexpr int kEach = 16 / int(sizeof(TypeA));  // elements of a copy
  const int unit = lane % 8, first = warp * 4 + lane / 8, last_row = int(args.m) - 1;
  const auto* a = static_cast<const TypeA*>(args.a);
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  wait_for_previous_grid();
  for (; more; more = scheduler.take(work)) {
    // Looked up once a tile: in front of each copy, the look-ups take longer than the products.
    // Rows of the next group are not stored; behind the last one there is none.
    const int row0 = work.first_row + (kSwap ? work.right : work.left) * kGatherRows + first;
    int rows[kGatherPasses];
    _Pragma("unroll") for (int p = 0; p < kGatherPasses; ++p)
      rows[p] = row_of_a(args, min(row0 + p * kRowsAtOnce, last_row));
    _Pragma("unroll 1") for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 to = shared.ring + turn.stage * kStageBytes + (kSwap ? kLeftBytes : 0);
      const int k = (work.begin + i) * kDepth + unit * kEach;
      const int valid = max(0, min(kEach, int(args.k) - k)) * int(sizeof(TypeA));
      const TypeA* from = a + (valid > 0 ? k : 0);
      _Pragma("unroll") for (int p = 0; p < kGatherPasses; ++p) {
        const int r = first + p * kRowsAtOnce;
        if (r < kGatherRows)
          cp_async_16(to + u32(r * 128 + (unit ^ r % 8) * 16), from + i64(rows[p]) * args.lda,
                      valid);
      }
      cp_async_arrive(shared.full + turn.stage * 8);
      turn.step();
    }
  }
}
//% end
