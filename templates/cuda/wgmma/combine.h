//% if sharing != tiles && !summed
// The reduction of partial accumulators by the block that finishes a tile last. Expects partials.h,
// combine_ptx.h.
#pragma once

/// True for the warpgroup that must finish the tile; its accumulators are then the
/// whole tile's.
KILN_DEVICE bool combine(Acc (&sums)[kSubtiles][kSums], const Work& work,
                         const TileScheduler& scheduler, const KilnGpuArgs& args, u32 flags,
                         int group, int region, int thread) {
  if (work.parts == 1) return true;
  constexpr int kRegion = kSubtiles * kSums * 128;  // accumulators of one warpgroup
  u32* counter = static_cast<u32*>(args.workspace) +
                 (i64(work.tile) * kCluster + scheduler.rank) * kRegions + region;
  Acc* partial =
      reinterpret_cast<Acc*>(static_cast<unsigned char*>(args.workspace) + sums_at(args)) +
      thread * 4;
  const auto at = [&](int part) {
    return partial +
           ((i64(slot_of(work, part)) * kCluster + scheduler.rank) * kRegions + region) * kRegion;
  };
  Acc* mine = at(work.part);
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; r += 4)
      store_four(mine + (s * kSums + r) * 128, &sums[s][r]);
  // The barrier, then the one arrival that releases, publish what every thread stored.
  named_barrier_sync(kGroupBarrier + group, 128);
  if (thread == 0) {
    const bool last = count_arrival(counter) == u32(work.parts - 1);
    if (last) *counter = 0;
    store_shared_word(flags + group * 4, last);
  }
  named_barrier_sync(kGroupBarrier + group, 128);
  const bool last = load_shared_word(flags + group * 4) != 0;
  // The flag may be written again only when every thread has read it.
  named_barrier_sync(kGroupBarrier + group, 128);
  if (!last) return false;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] = Acc(0);
  // A wait for memory takes some 700 cycles, so several parts are on their way at once.
  for (int first = 0; first < work.parts; first += kPiecesAtOnce) {
    Acc some[kPiecesAtOnce][kSubtiles][kSums / 4][4];
    _Pragma("unroll") for (int p = 0; p < kPiecesAtOnce; ++p) {
      // Past the end the last part is read again, and not added.
      const Acc* from = at(min(first + p, work.parts - 1));
      _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
        _Pragma("unroll") for (int r = 0; r < kSums / 4; ++r)
          load_four(some[p][s][r], from + (s * kSums + r * 4) * 128);
    }
    _Pragma("unroll") for (int p = 0; p < kPiecesAtOnce; ++p) {
      const bool there = first + p < work.parts;
      _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
        _Pragma("unroll") for (int r = 0; r < kSums; ++r)
          sums[s][r] += there ? some[p][s][r / 4][r % 4] : Acc(0);
    }
  }
  return true;
}
//% end
