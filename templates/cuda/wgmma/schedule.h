// Which work a block does, in which order: the same answer for its copying and its multiplying
// warps. A tile is kLeftTile rows of the left operand by kRightTile rows of the right one; k is
// counted in stages. Blocks of a cluster work on neighbouring tiles over the same k.
#pragma once

struct Work {
  int left, right;    // tile coordinates of this block
  int batch;
  int begin, count;   // stages of k
  //% if schedule != tiles
  int piece, pieces;  // which of how many parts of k
  int tile;           // number of the cluster's tile
  u32 first_slot;     // where the tile's first piece keeps its sums
  //% end
};

struct Schedule {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;
  //% if schedule == stream
  int shared_tiles;   // the first ones, whose k is cut evenly among all clusters
  int position, end;  // of this cluster's cut, in stages
  //% end

  static __device__ __forceinline__ Schedule start(i64 left_rows, i64 right_rows, i64 k, i64 batches, u32 rank_in_cluster) {
    Schedule s;
    s.rank = rank_in_cluster;
    // 32-bit on purpose: divisions of 64-bit numbers took 1 us before the first copy (H200).
    s.lefts = (int(left_rows) + kLeftTile * kClusterLeft - 1) / (kLeftTile * kClusterLeft);
    s.rights = (int(right_rows) + kRightTile * kClusterRight - 1) / (kRightTile * kClusterRight);
    s.stages = (int(k) + kDepth - 1) / kDepth;
    s.tiles = s.lefts * s.rights * int(batches);
    s.clusters = int(gridDim.x) / (kClusterLeft * kClusterRight);
    s.next = int(blockIdx.x) / (kClusterLeft * kClusterRight);
    //% if schedule == stream
    // Whole rounds but the last go tile by tile; the rest, one to two rounds, is cut evenly.
    const int left_over = s.tiles % s.clusters;
    s.shared_tiles = left_over == 0 ? 0 : min(s.tiles, left_over + s.clusters);
    const u32 all = u32(s.shared_tiles * s.stages);
    s.position = int(u32(s.next) * all / u32(s.clusters));
    s.end = int(u32(s.next + 1) * all / u32(s.clusters));
    s.next += s.shared_tiles;
    //% end
    return s;
  }

  //% if group_along != hilbert
  /// Groups of kGroup tiles along one side are walked together, so that what they share stays in
  /// L2.
  //% end
  __device__ __forceinline__ void place(Work& work, int tile) const {
    //% if batched
    const int area = lefts * rights;
    work.batch = tile / area;
    const int at = tile - work.batch * area;
    //% else
    work.batch = 0;
    const int at = tile;
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

  __device__ __forceinline__ bool take(Work& work) {
    //% if schedule == stream
    if (position < end) {
      const int tile = position / stages;
      const u32 all = u32(shared_tiles * stages), before = u32(tile * stages);
      work.begin = position - tile * stages;
      work.count = min(stages - work.begin, end - position);
      const int first = int(((before + 1) * u32(clusters) - 1) / all);
      const int last = int(((before + u32(stages)) * u32(clusters) - 1) / all);
      work.pieces = last - first + 1;
      work.piece = int(blockIdx.x) / (kClusterLeft * kClusterRight) - first;
      work.tile = tile;
      work.first_slot = u32(first) * 2 + 1;
      position += work.count;
      place(work, tile);
      return true;
    }
    //% end
    //% if schedule == split
    if (next >= tiles * kSplits) return false;
    const int tile = next / kSplits;
    work.tile = tile;
    work.piece = next - tile * kSplits;
    work.pieces = kSplits;
    work.first_slot = u32(tile) * kSplits;
    work.begin = work.piece * stages / kSplits;
    work.count = (work.piece + 1) * stages / kSplits - work.begin;
    //% else
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.count = stages;
    //% end
    //% if schedule == stream
    work.piece = 0;
    work.pieces = 1;
    //% end
    next += clusters;
    place(work, tile);
    return true;
  }
};

//% if schedule != tiles
/// Where piece `piece` of a tile keeps its sums. Cut evenly, a cluster holds at most two unfinished
/// pieces: one that ends a tile (slot 2c), one that begins a tile (slot 2c + 1).
KILN_DEVICE u32 slot_of(const Work& work, int piece) {
  //% if schedule == stream
  return piece == 0 ? work.first_slot : work.first_slot + 2 * u32(piece) - 1;
  //% else
  return work.first_slot + u32(piece);
  //% end
}
//% end
