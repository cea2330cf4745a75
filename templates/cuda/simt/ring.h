//% if copy == warps
// Tiles pass a ring of stages in shared memory: the second half of a block's threads fills it, the
// first empties it, and two barriers a stage say which is whole and which is free. Expects
// hopper_ptx.h and cp_async_ptx.h.
#pragma once

constexpr int kSumsBarrier = 1;  // of those that multiply; 0 is everybody's

struct Ring {
  u32 barriers;  // of all stages: whole, then free
  int stage;
  u32 parity;  // of the round that the ring is in

  static __device__ __forceinline__ Ring of(u32 barriers) { return Ring{barriers, 0, 0}; }
  /// By one thread, before anybody else has come.
  __device__ __forceinline__ void init() const {
    _Pragma("unroll 1") for (int s = 0; s < kStages; ++s) {
      mbarrier_init(barriers + s * 8, kThreads);
      mbarrier_init(barriers + (kStages + s) * 8, kThreads / 32);
    }
  }
  __device__ __forceinline__ u32 whole() const { return barriers + stage * 8; }
  __device__ __forceinline__ u32 free() const { return barriers + (kStages + stage) * 8; }
  __device__ __forceinline__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};
//% end
