//% if sharing != tiles
// The reduction of partial accumulators by the block that finishes a tile last. Expects store.h,
// partials.h, combine_ptx.h.
#pragma once

/// True for the block that must finish the tile; its accumulators are then the whole
/// tile's.
KILN_DEVICE bool combine(Sums& sums, const Work& work, void* workspace, int thread) {
  if (work.parts == 1) return true;
  __shared__ u32 arrived;
  constexpr int kPart = kTilesM * kTilesN * 4 * kThreads;
  u32* counter = static_cast<u32*>(workspace) + work.tile;
  Acc* parts =
      reinterpret_cast<Acc*>(static_cast<unsigned char*>(workspace) + kCounterBytes) + thread * 2;
  Acc* mine = parts + i64(slot_of(work, work.part)) * kPart;
  _Pragma("unroll") for (int s = 0; s < kTilesM * kTilesN * 2; ++s)
    store_pair(mine + s * 2 * kThreads, &sums[s / 2 / kTilesN][s / 2 % kTilesN][s % 2 * 2]);
  __threadfence();
  __syncthreads();
  if (thread == 0) arrived = count_arrival(counter);
  __syncthreads();
  if (arrived != u32(work.parts - 1)) return false;
  if (thread == 0) *counter = 0;
  __threadfence();
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e) sums[i][j][e] = Acc(0);
  _Pragma("unroll 1") for (int p = 0; p < work.parts; ++p) {
    const Acc* from = parts + i64(slot_of(work, p)) * kPart;
    _Pragma("unroll") for (int s = 0; s < kTilesM * kTilesN * 2; ++s) {
      Acc part[2];
      load_pair(part, from + s * 2 * kThreads);
      sums[s / 2 / kTilesN][s / 2 % kTilesN][s % 2 * 2] += part[0];
      sums[s / 2 / kTilesN][s / 2 % kTilesN][s % 2 * 2 + 1] += part[1];
    }
  }
  return true;
}
//% end
