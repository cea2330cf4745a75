//% if sharing != tiles
// The reduction of partial accumulators by the block that finishes a tile last. Expects partials.h,
// combine_ptx.h.
#pragma once

/// True for the block that must finish the tile; its accumulators are then the whole
/// tile's.
KILN_DEVICE bool combine(Acc (&sums)[kThreadM][kThreadN], const Work& work, void* workspace,
                         int thread) {
  if (work.parts == 1) return true;
  __shared__ int is_last;
  u32* counter = static_cast<u32*>(workspace) + work.tile;
  Acc* partial =
      reinterpret_cast<Acc*>(static_cast<unsigned char*>(workspace) + kCounterBytes) + thread;
  Acc* mine = partial + i64(slot_of(work, work.part)) * (kBlockM * kBlockN);
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j)
      store_past_l1(mine + (i * kThreadN + j) * kThreads, sums[i][j]);
  __threadfence();
  //% if copy == warps
  named_barrier_sync(kSumsBarrier, kThreads);
  //% else
  __syncthreads();
  //% end
  if (thread == 0) {
    const bool last = count_arrival(counter) == u32(work.parts - 1);
    if (last) *counter = 0;
    is_last = last;
  }
  //% if copy == warps
  named_barrier_sync(kSumsBarrier, kThreads);
  //% else
  __syncthreads();
  //% end
  if (!is_last) return false;
  __threadfence();
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) sums[i][j] = Acc(0);
  for (int p = 0; p < work.parts; ++p) {
    const Acc* from = partial + i64(slot_of(work, p)) * (kBlockM * kBlockN);
    _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
      _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) {
        Acc part;
        load_past_l1(part, from + (i * kThreadN + j) * kThreads);
        sums[i][j] += part;
      }
  }
  return true;
}
//% end
