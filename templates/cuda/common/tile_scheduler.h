// The tile scheduler: which tile a block computes next, and which part of its k. D's tiles form a
// grid: `left` counts tiles along the rows of the left operand, `right` along those of the right
// one (A and B, or B and A where D is computed transposed). k is counted in pipeline stages. Blocks
// of a cluster get neighbouring tiles and the same k; without clusters each block is a cluster of
// its own.
//% if group_along == hilbert
// Expects hilbert.h.
//% end
//% if k_groups
// Groups have equal numbers of tiles, and each its own part of k. Expects groups.h.
//% end
//% if row_groups
// Tiles of one group lie behind those of the group before it, so that an empty group has none.
// Expects groups.h.
//% end
//% if lists
// Products of a list have tiles and k of their own; those of one lie behind those of the one before
// it, so that an empty product has none. Expects groups.h.
//% end
#pragma once

struct Work {
  int left, right;  // tile coordinates of this block
  int batch;
  int begin, count;  // stages of k
  //% if row_groups
  int first_row, rows;  // of the group
  //% end
  //% if k_groups
  int first_k, k;  // of the group
  //% end
  //% if sharing != tiles
  int part, parts;  // which of how many parts of the tile's k
  int tile;         // number of the cluster's tile
  u32 first_slot;   // of the workspace, for the accumulators of the tile's first part
  //% end
};

struct TileScheduler {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;  // of the block in its cluster
  //% if groups
  Groups groups;
  //% end
  //% if sharing == stream
  int divided_tiles;  // the first ones, whose k is divided evenly among all clusters
  int position, end;  // of this cluster's part of their k, in stages
  //% end

  /// The counts are of clusters' tiles, and 32-bit on purpose: divisions of 64-bit numbers took
  /// 1 us before the first copy (H200).
  static __device__ __forceinline__ TileScheduler start(int lefts, int rights, int stages,
                                                        int batches, u32 rank) {
    TileScheduler s;
    s.rank = rank;
    s.lefts = lefts;
    s.rights = rights;
    s.stages = stages;
    s.tiles = lefts * rights * batches;
    //% if cluster
    s.clusters = int(gridDim.x) / (kClusterLeft * kClusterRight);
    s.next = int(blockIdx.x) / (kClusterLeft * kClusterRight);
    //% else
    s.clusters = int(gridDim.x);
    s.next = int(blockIdx.x);
    //% end
    //% if sharing == stream
    // Stream-K: full waves but the last go tile by tile; the k of the rest, one to two waves, is
    // divided evenly.
    const int left_over = s.tiles % s.clusters;
    s.divided_tiles = left_over == 0 ? 0 : min(s.tiles, left_over + s.clusters);
    const u32 all = u32(s.divided_tiles * s.stages);
    s.position = int(u32(s.next) * all / u32(s.clusters));
    s.end = int(u32(s.next + 1) * all / u32(s.clusters));
    s.next += s.divided_tiles;
    //% end
    return s;
  }

  //% if group_along != hilbert
  /// Rasterization in bands of kGroup tiles along one side, so that L2 serves what they share.
  //% end
  __device__ __forceinline__ void place(Work& work, int tile) const {
    //% if row_groups
    work.batch = groups.holding(tile);
    work.first_row = groups.first_row(work.batch);
    work.rows = groups.rows(work.batch);
    const int at = tile - groups.tiles_before(work.batch);
    const int of_rows = (work.rows + kGroupRows - 1) / kGroupRows;
    //% if groups_right
    const int lefts = this->lefts, rights = of_rows;
    //% else
    const int lefts = of_rows, rights = this->rights;
    //% end
    //% end
    //% if lists
    work.batch = groups.holding(tile);
    const int at = tile - groups.tiles_before(work.batch);
    //% if groups_right
    const int lefts = groups.width(work.batch);
    const int rights =
        (groups.tiles_before(work.batch + 1) - groups.tiles_before(work.batch)) / lefts;
    //% else
    const int rights = groups.width(work.batch);
    const int lefts =
        (groups.tiles_before(work.batch + 1) - groups.tiles_before(work.batch)) / rights;
    //% end
    //% end
    //% if !row_groups && !lists
    //% if batched
    const int area = lefts * rights;
    work.batch = tile / area;
    const int at = tile - work.batch * area;
    //% else
    work.batch = 0;
    const int at = tile;
    //% end
    //% end
    //% if group_along == left
    const int band = at / (kGroup * rights), in_band = at - band * kGroup * rights;
    const int height = min(lefts - band * kGroup, kGroup);
    const int across = in_band / height;
    work.left = band * kGroup + in_band - across * height;
    work.right = across;
    //% else
    //% if group_along == hilbert
    const Place curve = on_curve(at, lefts, rights, kGroup);
    work.left = curve.left;
    work.right = curve.right;
    //% else
    const int band = at / (kGroup * lefts), in_band = at - band * kGroup * lefts;
    const int height = min(rights - band * kGroup, kGroup);
    const int across = in_band / height;
    work.right = band * kGroup + in_band - across * height;
    work.left = across;
    //% end
    //% end
    //% if cluster
    work.left = work.left * kClusterLeft + int(rank % kClusterLeft);
    work.right = work.right * kClusterRight + int(rank / kClusterLeft);
    //% end
  }

  /// The block's next work; false when there is none.
  __device__ __forceinline__ bool take(Work& work) {
    //% if sharing == stream
    if (position < end) {
      const int tile = position / stages;
      const u32 all = u32(divided_tiles * stages), before = u32(tile * stages);
      work.begin = position - tile * stages;
      work.count = min(stages - work.begin, end - position);
      const int first = int(((before + 1) * u32(clusters) - 1) / all);
      const int last = int(((before + u32(stages)) * u32(clusters) - 1) / all);
      work.parts = last - first + 1;
      //% if cluster
      work.part = int(blockIdx.x) / (kClusterLeft * kClusterRight) - first;
      //% else
      work.part = int(blockIdx.x) - first;
      //% end
      work.tile = tile;
      work.first_slot = u32(first) * 2 + 1;
      position += work.count;
      place(work, tile);
      return true;
    }
    //% end
    //% if sharing == split
    // Split-K.
    if (next >= tiles * kSplits) return false;
    const int tile = next / kSplits;
    work.tile = tile;
    work.part = next - tile * kSplits;
    work.parts = kSplits;
    work.first_slot = u32(tile) * kSplits;
    work.begin = work.part * stages / kSplits;
    work.count = (work.part + 1) * stages / kSplits - work.begin;
    //% else
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.count = stages;
    //% end
    //% if sharing == stream
    work.part = 0;
    work.parts = 1;
    //% end
    next += clusters;
    place(work, tile);
    //% if k_groups
    work.first_k = groups.first_k(work.batch);
    work.k = groups.length(work.batch);
    //% if k_group_edges
    // Stages lie where all of k has them, so that each is a block of scales. An empty group
    // multiplies one stage of zeros, so that its D is written.
    work.begin = work.first_k / kGroupDepth;
    work.count = max(1, (work.first_k + work.k + kGroupDepth - 1) / kGroupDepth - work.begin);
    //% else
    // An empty group multiplies one stage of zeros, so that its D is written.
    work.count = max(1, (work.k + kGroupDepth - 1) / kGroupDepth);
    //% end
    //% end
    //% if list_maps
    // A product without k multiplies one stage of zeros, so that its D is written.
    work.count = max(1, groups.stages_of(work.batch));
    //% end
    //% if lists && !list_maps
    // None without k: D is then written from sums of zero.
    work.count = (int(groups.entries[work.batch].k) + kGroupDepth - 1) / kGroupDepth;
    //% end
    return true;
  }
};
