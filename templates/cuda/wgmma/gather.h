//% if gather_copies
// Rows of A by index, which the copy engine cannot address: three warps of the warpgroup that copies
// bring them, swizzled as the copy engine would. Expects abi.h, indices.h, cp_async_ptx.h,
// tile_scheduler.h, ring.h.
#pragma once

constexpr int kGatherWarps = 3;
constexpr int kGatherRows = kSwap ? kRightTile : kLeftTile;  // of a stage
constexpr int kRowsAtOnce = kGatherWarps * 4;                // eight lanes bring a row's 128 bytes

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
    const int row0 = work.first_row + (kSwap ? work.right : work.left) * kGatherRows;
    _Pragma("unroll 1") for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 to = shared.ring + turn.stage * kStageBytes + (kSwap ? kLeftBytes : 0);
      const int k = (work.begin + i) * kDepth + unit * kEach;
      const int valid = max(0, min(kEach, int(args.k) - k));
      const TypeA* from = a + (valid > 0 ? k : 0);
      // Rows of the next group are not stored; behind the last one there is none.
      _Pragma("unroll 4") for (int r = first; r < kGatherRows; r += kRowsAtOnce)
        cp_async_16(to + u32(r * 128 + (unit ^ r % 8) * 16),
                    from + i64(row_of_a(args, min(row0 + r, last_row))) * args.lda,
                    valid * int(sizeof(TypeA)));
      cp_async_arrive(shared.full + turn.stage * 8);
      turn.step();
    }
  }
}
//% end
