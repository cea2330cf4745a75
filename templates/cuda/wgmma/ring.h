// The ring of pipeline stages in shared memory. Expects tile.h.
#pragma once

/// Shared memory: the ring, buffers of stores, barriers.
struct Shared {
  u32 ring, buffers, full, empty, flags;  // flags of shared k, or the tables of groups
  //% if block_scales && !weights
  //% if tma_scales
  u32 scales;  // a ring of their own
  //% else
  u32 scales;  // of each place of the ring
  //% end
  //% end
  //% if bring && pingpong
  u32 parts, parts_full, parts_empty;  // of matrices that an expression reads (bring.h)
  //% end
  static __device__ __forceinline__ Shared at(u32 base) {
    Shared s;
    s.ring = base;
    s.buffers = base + kStages * kStageBytes;
    //% if block_scales && !weights
    s.scales = s.buffers + kStoreBytes;
    //% if tma_scales
    s.full = s.scales + kScalePlaces * kScaleBytes;
    //% else
    s.full = s.scales + kStages * kScaleBytes;
    //% end
    //% else
    //% if bring && pingpong
    s.parts = (s.buffers + kStoreBytes + 1023) / 1024 * 1024;
    s.full = s.parts + kParts * kPartBytes;
    //% else
    s.full = s.buffers + kStoreBytes;
    //% end
    //% end
    s.empty = s.full + kStages * 8;
    //% if bring && pingpong
    s.parts_full = s.empty + kStages * 8;
    s.parts_empty = s.parts_full + 2 * kParts * 8;
    s.flags = s.parts_empty + kParts * 8;
    //% else
    s.flags = s.empty + kStages * 8;
    //% end
    return s;
  }
};

/// Where in the ring a warp is, and the parity of that place's barriers.
struct Turn {
  int stage = 0;
  u32 parity = 0;
  //% if tma_scales
  u32 scales = 0;  // where the stage's lie in their ring; a tile has whole fours of stages
  //% end
  __device__ __forceinline__ void step() {
    //% if tma_scales
    scales += 4;
    if (scales % 16 == 0) scales += kScaleBytes - 16;
    if (scales == kScalePlaces * kScaleBytes) scales = 0;
    //% end
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  //% if pingpong
  __device__ __forceinline__ void skip(int count) {
    //% if tma_scales
    scales = (scales / kScaleBytes + u32(count) / kScaleStages) % kScalePlaces * kScaleBytes;
    //% end
    const int at = stage + count;
    parity ^= u32(at / kStages) & 1;
    stage = at % kStages;
  }
  //% end
};
