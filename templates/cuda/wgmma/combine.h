//% if sharing != tiles
//% if summed
// Partial accumulators to and from the workspace.
//% else
// The reduction of partial accumulators by the block that finishes a tile last. Expects partials.h.
//% end
#pragma once

KILN_DEVICE void store_four(Acc* to, const Acc* from) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), KILN_ACC_IN(from[0]),
               KILN_ACC_IN(from[1]), KILN_ACC_IN(from[2]), KILN_ACC_IN(from[3])
               : "memory");
}
/// Past L1, which may hold what another block has overwritten since.
KILN_DEVICE void load_four(Acc (&to)[4], const Acc* from) {
  asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
               : KILN_ACC_OUT(to[0]), KILN_ACC_OUT(to[1]), KILN_ACC_OUT(to[2]), KILN_ACC_OUT(to[3])
               : "l"(from)
               : "memory");
}
//% if !summed
KILN_DEVICE void store_shared_word(u32 to, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
KILN_DEVICE u32 load_shared_word(u32 from) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}

/// True for the warpgroup that must finish the tile; its accumulators are then those of
/// all parts.
KILN_DEVICE bool combine(Acc (&sums)[kSubtiles][kSums], const Work& work, const TileScheduler& scheduler,
                         const KilnGpuArgs& args, u32 flags, int group, int region, int thread) {
  if (work.parts == 1) return true;
  constexpr int kRegion = kSubtiles * kSums * 128;  // sums of one warpgroup
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
//% end
