// The tile scheduler: which part of D a block computes. Hardware deals blocks to the chiplets in
// turn; they are renumbered so that a chiplet, which has an L2 of its own, gets neighbours. The
// rasterization takes bands of kGroup rows of tiles, each column by column.
#pragma once

struct Work {
  i64 batch;
  u32 tile_m, tile_n;
  u32 tile;   // of all batches
  u32 tiles;  // of all batches together
  u32 piece;  // which of the kSplits parts of k
  i64 k_begin, k_end;
};

KILN_DEVICE Work work_of(const KilnGpuArgs& args, u32 block) {
  Work work;
  const u32 tiles_m = u32(ceil_div(args.m, kTileM)), tiles_n = u32(ceil_div(args.n, kTileN));
  const u32 of_batch = tiles_m * tiles_n;
  work.tiles = of_batch * u32(args.batch);
  //% if remap
  constexpr u32 kRound = kChiplets * kChunk;
  if (block < work.tiles * kSplits / kRound * kRound) {
    const u32 chiplet = block % kChiplets, turn = block / kChiplets;
    block = turn / kChunk * kRound + chiplet * kChunk + turn % kChunk;
  }
  //% end
  //% if split
  work.piece = block % kSplits;
  block /= kSplits;
  //% else
  work.piece = 0;
  //% end
  work.tile = block;
  const u32 in_batch = block % of_batch;
  work.batch = block / of_batch;
  const u32 group = in_batch / (kGroup * tiles_n), first = group * kGroup;
  const u32 height = tiles_m - first < kGroup ? tiles_m - first : kGroup;
  const u32 in_group = in_batch - first * tiles_n;
  work.tile_m = first + in_group % height;
  work.tile_n = in_group / height;
  //% if split
  const i64 steps = ceil_div(args.k, kTileK), share = ceil_div(steps, kSplits) * kTileK;
  work.k_begin = work.piece * share < args.k ? work.piece * share : args.k;
  work.k_end = work.k_begin + share < args.k ? work.k_begin + share : args.k;
  //% else
  work.k_begin = 0;
  work.k_end = args.k;
  //% end
  return work;
}
