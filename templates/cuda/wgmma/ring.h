// The ring of pipeline stages in shared memory. Expects tile.h.
#pragma once

/// Shared memory: the ring, buffers of stores, barriers.
struct Shared {
  u32 ring, buffers, full, empty, flags;  // flags of shared k, or the tables of groups
  //% if block_scales && !weights
  u32 scales;  // of each place of the ring
  //% end
  static __device__ __forceinline__ Shared at(u32 base) {
    Shared s;
    s.ring = base;
    s.buffers = base + kStages * kStageBytes;
    //% if block_scales && !weights
    s.scales = s.buffers + kStoreBytes;
    s.full = s.scales + kStages * kScaleBytes;
    //% else
    s.full = s.buffers + kStoreBytes;
    //% end
    s.empty = s.full + kStages * 8;
    s.flags = s.empty + kStages * 8;
    return s;
  }
};

/// Where in the ring a warp is, and the parity of that place's barriers.
struct Turn {
  int stage = 0;
  u32 parity = 0;
  __device__ __forceinline__ void step() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  //% if pingpong
  __device__ __forceinline__ void skip(int count) {
    const int at = stage + count;
    parity ^= u32(at / kStages) & 1;
    stage = at % kStages;
  }
  //% end
};
