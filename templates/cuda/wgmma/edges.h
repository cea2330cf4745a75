//% if k_group_edges
// Groups of k whose lines run along k: in a group's first and last stage there may be elements of
// its neighbours, which become zeros in shared memory. Of both operands, since zero times NaN is no
// zero. Expects hopper_ptx.h, groups_ptx.h, tile_scheduler.h, tile.h.
#pragma once

/// Through a shuffle: the assembler serialises wgmma beside branches on which the lanes of a warp
/// may not agree.
KILN_DEVICE int same_for_warp(int x) { return __shfl_sync(0xffffffff, x, 0); }

/// Which bytes of a stage's lines are of the tile's group: from `first` on in its first stage, up
/// to `end` in its last one.
struct Edges {
  int first, end;

  static __device__ __forceinline__ Edges of(const Work& work) {
    constexpr int kBytes = 128 / kDepth;  // of an element
    const int last = work.begin + work.count - 1;
    return {same_for_warp((work.first_k - work.begin * kDepth) * kBytes),
            same_for_warp((work.first_k + work.k - last * kDepth) * kBytes)};
  }

  /// Clears the other bytes of stage `i` of `count`, which begins at `stage`: in this warpgroup's
  /// left lines, of which `row_offset` is the first, and in its share of the right ones.
  __device__ __forceinline__ void clear(u32 stage, int i, int count, u32 row_offset,
                                        int group) const {
    const int begin = i == 0 ? first : 0, behind = i + 1 == count ? end : 128;
    if (begin == 0 && behind == 128) return;
    const int thread = int(threadIdx.x) & 127;
    _Pragma("unroll 1") for (int row = thread; row < kWarpgroupRows; row += 128)
      clear_line(stage, int(row_offset) + row, begin, behind);
    //% if pingpong
    constexpr int kFirst = 0;
    //% else
    const int kFirst = group * 128;
    //% end
    _Pragma("unroll 1") for (int row = kFirst + thread; row < kRightTile; row += kRegions * 128)
      clear_line(stage + kLeftBytes, row, begin, behind);
    fence_async_shared();
    //% if pingpong
    named_barrier_sync(kGroupBarrier + group, 128);
    //% else
    named_barrier_sync(kGroupBarrier + kWarpgroups, kWarpgroups * 128);
    //% end
  }

  static __device__ __forceinline__ void clear_line(u32 tile, int row, int begin, int behind) {
    _Pragma("unroll 1") for (int byte = 0; byte < 128; byte += 4) {
      const int head = min(4, max(0, begin - byte)), tail = min(4, max(0, byte + 4 - behind));
      if (head + tail == 0) continue;
      const u32 at = tile + row * 128 + ((byte / 16) ^ (row % 8)) * 16 + byte % 16;
      const u32 kept =
          head + tail >= 4 ? 0 : (0xffffffffu << (head * 8)) & (0xffffffffu >> (tail * 8));
      store_shared_word(at, kept == 0 ? 0 : load_shared_word(at) & kept);
    }
  }
};
//% end
