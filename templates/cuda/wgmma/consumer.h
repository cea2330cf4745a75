// What every warpgroup that multiplies does with the ring and its sums. Expects wgmma_ptx.h,
// ring.h.
#pragma once

/// This warp no longer reads a place of the ring: every block that writes to it must know.
KILN_DEVICE void release(u32 empty, int lane) {
  //% if cluster
  if (lane < kCluster) mbarrier_arrive_at(empty, lane);
  //% else
  if (lane == 0) mbarrier_arrive(empty);
  //% end
}

/// All sums, so that the compiler keeps what it does with them on its side of a wait.
KILN_DEVICE void pin_all(Acc (&sums)[kSubtiles][kSums]) {
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) pin(sums[s][r]);
}
//% if in_turn
KILN_DEVICE void pin_sums(Acc (&sums)[kSums]) {
  _Pragma("unroll") for (int r = 0; r < kSums; ++r) pin(sums[r]);
}
//% end
