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
//% if bring

/// The parts of a tile, one after the other (bring.h).
struct Parts {
  const Shared& shared;
  PartTurn& turn;
  int group;
  bool there;  // otherwise lanes read memory
  u32 part;    // the warpgroup's, of the turns at hand

  __device__ __forceinline__ void before(int of_tile) {
    if (!there || of_tile % kTurnsOfPart != 0) return;
    //% if pingpong
    mbarrier_wait(shared.parts_full + (group * kParts + turn.place) * 8, turn.parity);
    part = shared.parts + turn.place * kPartBytes;
    //% else
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    part = shared.ring + turn.stage * kStageBytes + group * kBroughtBytes;
    //% end
  }
  __device__ __forceinline__ void behind(int of_tile, int lane) {
    if (!there || of_tile % kTurnsOfPart != kTurnsOfPart - 1) return;
    __syncwarp();
    //% if pingpong
    if (lane == 0) mbarrier_arrive(shared.parts_empty + turn.place * 8);
    //% else
    release(shared.empty + turn.stage * 8, lane);
    //% end
    turn.step();
  }
};
//% end
