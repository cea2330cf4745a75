//% if groups
//% if k_groups
// A grouped problem's groups: which part of k each has. The list of them lies in the device's
// memory, so each block reads it before its first tile. Expects abi.h, epilogue.h, groups_ptx.h,
// group_args.h.
//% end
//% if row_groups
// A grouped problem's groups: which rows of A and D each has, and which tiles. The list of them
// lies in the device's memory, so each block reads it and counts tiles before its first one.
// Expects abi.h, epilogue.h, groups_ptx.h, group_args.h.
//% end
//% if lists
// The products of a list, and which tiles each has. The list lies in the workspace, so each block
// reads it and counts tiles before its first one. Expects abi.h, list_abi.h, groups_ptx.h,
// group_args.h.
//% end
#pragma once

//% if k_groups
/// A table in shared memory, of kMostGroups words.
struct Groups {
  u32 ends;  // of each group the index along k behind its last one
  int count;

  static __device__ __forceinline__ Groups at(u32 base, const KilnGpuArgs& args) {
    return {base, int(args.batch)};
  }
  /// What the list may not say becomes the nearest that it may. A group begins behind all groups
  /// before it, so each end becomes the largest one up to it. By all threads of a block.
  __device__ __forceinline__ void read(const KilnGpuArgs& args, int thread, int threads) const {
    const int* list = static_cast<const int*>(args.groups);
    for (int i = thread; i < count; i += threads)
      store_shared_word(ends + i * 4, u32(max(0, min(int(args.k), list[i]))));
    __syncthreads();
    // The first warp. Through a shuffle: the assembler serialises wgmma behind branches on which
    // the lanes of a warp may not agree.
    if (__shfl_sync(0xffffffff, thread / 32, 0) != 0) return;
    int before = 0;
    for (int first = 0; first < count; first += 32) {
      const int i = first + thread;
      int end = i < count ? max(before, int(load_shared_word(ends + i * 4))) : before;
      _Pragma("unroll") for (int step = 1; step < 32; step *= 2)
        end = max(end, __shfl_sync(0xffffffff, end, max(0, thread - step)));
      if (i < count) store_shared_word(ends + i * 4, u32(end));
      before = __shfl_sync(0xffffffff, end, 31);
    }
  }
  __device__ __forceinline__ int first_k(int group) const {
    return group == 0 ? 0 : int(load_shared_word(ends + group * 4 - 4));
  }
  __device__ __forceinline__ int length(int group) const {
    return max(0, int(load_shared_word(ends + group * 4)) - first_k(group));
  }
};

/// Where the results of one group go.
KILN_DEVICE Output output_of_group(const KilnGpuArgs& args, i64 group) {
  return output_of(args_of_group(args, group, 0, args.k, 0, 0), group);
}
//% else
//% if list_maps
/// Three tables in shared memory, of kMostGroups words and one more.
//% else
/// Two tables in shared memory, of kMostGroups words and one more.
//% end
struct Groups {
  //% if lists
  u32 widths;  // of each product the tiles along its rows
  u32 tiles;   // before each product, and of all
  //% if list_maps
  u32 stages;  // of each product's k
  //% end
  int count;
  const KilnListEntry* entries;
  //% else
  u32 ends;   // of each group the row behind its last one, or with masked rows their number
  u32 tiles;  // before each group, and of all
  int count;
  //% end

  static __device__ __forceinline__ Groups at(u32 base, const KilnGpuArgs& args) {
    //% if list_maps
    return {base, base + kMostGroups * 4, base + (2 * kMostGroups + 1) * 4, int(args.batch),
            entries_of(args)};
    //% end
    //% if lists && !list_maps
    return {base, base + kMostGroups * 4, int(args.batch), entries_of(args)};
    //% end
    //% if !lists
    return {base, base + kMostGroups * 4, int(args.batch)};
    //% end
  }
  //% if lists
  /// By all threads of a block. `tiles` has the tiles along each product's columns until they are
  /// counted.
  __device__ __forceinline__ void read(const KilnGpuArgs&, int thread, int threads) const {
    for (int i = thread; i < count; i += threads) {
      store_shared_word(widths + i * 4, u32((int(entries[i].n) + kListColumns - 1) / kListColumns));
      store_shared_word(tiles + i * 4, u32((int(entries[i].m) + kGroupRows - 1) / kGroupRows));
      //% if list_maps
      store_shared_word(stages + i * 4, u32((int(entries[i].k) + kGroupDepth - 1) / kGroupDepth));
      //% end
    }
  }
  /// By the lanes of one warp, once those are there.
  //% else
  /// What the list may not say becomes the nearest that it may. By all threads of a block.
  __device__ __forceinline__ void read(const KilnGpuArgs& args, int thread, int threads) const {
    const int* list = static_cast<const int*>(args.groups);
    for (int i = thread; i < count; i += threads)
      store_shared_word(ends + i * 4, u32(max(0, min(int(args.m), list[i]))));
  }
  /// By the lanes of one warp, once the ends are there. A group's rows are tiles of kGroupRows,
  /// each of them `across` tiles.
  //% if !masked
  /// A group begins behind all groups before it, so each end becomes the largest one up to it.
  //% end
  //% end
  __device__ __forceinline__ void count_tiles(
      //% if !lists
      int across,
      //% end
      int lane) const {
    int before = 0;
    //% if row_groups && !masked
    int last_end = 0;  // of the groups before these
    //% end
    for (int first = 0; first < count; first += 32) {
      const int i = first + lane;
      //% if lists
      const int own = i < count ? tiles_before(i) * width(i) : 0;
      //% end
      //% if row_groups && masked
      const int own = i < count ? (rows(i) + kGroupRows - 1) / kGroupRows * across : 0;
      //% end
      //% if row_groups && !masked
      int end = i < count ? max(last_end, int(load_shared_word(ends + i * 4))) : last_end;
      _Pragma("unroll") for (int step = 1; step < 32; step *= 2)
        end = max(end, __shfl_sync(0xffffffff, end, max(0, lane - step)));
      const int neighbour = __shfl_sync(0xffffffff, end, max(0, lane - 1));
      const int begin = lane == 0 ? last_end : neighbour;
      if (i < count) store_shared_word(ends + i * 4, u32(end));
      last_end = __shfl_sync(0xffffffff, end, 31);
      const int own = (end - begin + kGroupRows - 1) / kGroupRows * across;
      //% end
      int sum = own;
      _Pragma("unroll") for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_sync(0xffffffff, sum, max(0, lane - step));
        if (lane >= step) sum += other;
      }
      if (i < count) store_shared_word(tiles + i * 4, u32(before + sum - own));
      before += __shfl_sync(0xffffffff, sum, 31);
    }
    if (lane == 0) store_shared_word(tiles + count * 4, u32(before));
  }
  //% if lists
  __device__ __forceinline__ int width(int product) const {
    return int(load_shared_word(widths + product * 4));
  }
  //% if list_maps
  __device__ __forceinline__ int stages_of(int product) const {
    return int(load_shared_word(stages + product * 4));
  }
  //% end
  //% else
  __device__ __forceinline__ int first_row(int group) const {
    //% if masked
    return 0;
    //% else
    return group == 0 ? 0 : int(load_shared_word(ends + group * 4 - 4));
    //% end
  }
  __device__ __forceinline__ int rows(int group) const {
    return max(0, int(load_shared_word(ends + group * 4)) - first_row(group));
  }
  //% end
  __device__ __forceinline__ int tiles_before(int group) const {
    return int(load_shared_word(tiles + group * 4));
  }
  /// The group that has this tile. Without branches, on which lanes of a warp might part.
  __device__ __forceinline__ int holding(int tile) const {
    int group = 0;
    _Pragma("unroll") for (int step = kMostGroups / 2; step > 0; step /= 2) {
      const int further = min(group + step, count - 1);
      group = tiles_before(further) <= tile ? further : group;
    }
    return group;
  }
};

//% if !lists
/// Where the results of one group go.
KILN_DEVICE Output output_of_group(const KilnGpuArgs& args, i64 group, i64 first_row, i64 rows) {
  return output_of(args_of_group(args, group, first_row, rows, 0), group);
}
//% end
//% end
//% end
