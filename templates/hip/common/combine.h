// The reduction of split-K: the block of a tile that comes last adds all partial accumulators in
// the order of k, so that the same call gives the same bits. The workspace holds a counter a tile
// (zero between calls: the last block resets it), then the partial accumulators.
#pragma once

//% if split
/// True for the block that must finish the tile; its accumulators then hold all of k.
KILN_DEVICE bool combine(Tile& sums, const Work& work, const KilnGpuArgs& args, u32 thread) {
  constexpr i64 kOfThread = i64(kBlocksM) * kBlocksN;
  const i64 counters = (i64(work.tiles) * 4 + 255) / 256 * 256;
  u32* counter = static_cast<u32*>(args.workspace) + work.tile;
  Sums* all = reinterpret_cast<Sums*>(static_cast<u8*>(args.workspace) + counters);
  const auto at = [&](u32 piece, i64 block) -> Sums* {
    return all + ((i64(work.tile) * kSplits + piece) * kOfThread + block) * kThreads + thread;
  };
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) *
      at(work.piece, i * kBlocksN + j) = sums[i][j];
  release_to_device();
  block_barrier();
  // The stages are no longer read: their first word tells all threads who came last.
  if (thread == 0) {
    const u32 before = count_arrival(counter);
    if (before == kSplits - 1) *counter = 0;
    ds_write_b32(0, before);
  }
  block_barrier();
  if (ds_read_b32(0) != kSplits - 1) return false;
  acquire_from_device();
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) {
    Sums sum = *at(0, i * kBlocksN + j);
    for (u32 piece = 1; piece < kSplits; ++piece) sum += *at(piece, i * kBlocksN + j);
    sums[i][j] = sum;
  }
  return true;
}
//% end
