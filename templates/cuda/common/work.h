// Which tile and which part of k a block works on, and the sum of parts. A tile whose k was cut is
// finished by whichever of its blocks comes last, which adds all parts in the order of k: the same
// call gives the same bits. Expects types.h, and from the parameters the tile.
#pragma once

struct Work {
  i64 batch;
  int m, n;         // of the tile
  int begin, end;   // of k, in passes of kBlockK
  //% if sharing != tiles
  int tile, piece, pieces;
  u32 first_slot;   // where the tile's first piece keeps its sums
  //% end
};

struct Shares {
  int tiles_m, tiles_n;
  int passes;  // of kBlockK
  int tiles, next;
  //% if sharing == stream
  int cut_tiles;       // the first ones, whose k is cut evenly among all blocks
  int position, last;  // of this block's cut, in passes
  //% end

  static __device__ __forceinline__ Shares of(const KilnGpuArgs& args) {
    Shares s;
    s.tiles_m = int(ceil_div(args.m, kBlockM));
    s.tiles_n = int(ceil_div(args.n, kBlockN));
    s.passes = int(ceil_div(args.k, kBlockK));
    s.tiles = s.tiles_m * s.tiles_n * int(args.batch);
    s.next = int(blockIdx.x);
    //% if sharing == stream
    // Whole rounds but the last go tile by tile; the rest, one to two rounds, is cut evenly.
    const int blocks = int(gridDim.x), left_over = s.tiles % blocks;
    s.cut_tiles = left_over == 0 ? 0 : min(s.tiles, left_over + blocks);
    const u32 all = u32(s.cut_tiles) * u32(s.passes);
    s.position = int(u32(s.next) * all / u32(blocks));
    s.last = int(u32(s.next + 1) * all / u32(blocks));
    s.next += s.cut_tiles;
    //% end
    return s;
  }

  /// Groups of kGroup rows of tiles are walked together, so that what they share stays in L2.
  __device__ __forceinline__ void place(Work& work, int tile) const {
    const int area = tiles_m * tiles_n;
    work.batch = tile / area;
    const int at = tile - int(work.batch) * area;
    const int band = at / (kGroup * tiles_n), in_band = at - band * kGroup * tiles_n;
    const int height = min(tiles_m - band * kGroup, kGroup);
    work.n = in_band / height;
    work.m = band * kGroup + in_band - work.n * height;
  }

  __device__ __forceinline__ bool take(Work& work) {
    //% if sharing == stream
    if (position < last) {
      const int depth = passes, blocks = int(gridDim.x), tile = position / depth;
      const u32 all = u32(cut_tiles) * u32(depth), before = u32(tile) * u32(depth);
      work.begin = position - tile * depth;
      work.end = min(depth, work.begin + last - position);
      const int first = int(((before + 1) * u32(blocks) - 1) / all);
      const int final = int(((before + u32(depth)) * u32(blocks) - 1) / all);
      work.pieces = final - first + 1;
      work.piece = int(blockIdx.x) - first;
      work.tile = tile;
      work.first_slot = u32(first) * 2 + 1;
      position += work.end - work.begin;
      place(work, tile);
      return true;
    }
    //% end
    //% if sharing == split
    if (next >= tiles * kSplits) return false;
    const int tile = next / kSplits;
    work.tile = tile;
    work.piece = next - tile * kSplits;
    work.pieces = kSplits;
    work.first_slot = u32(tile) * kSplits;
    work.begin = int(i64(work.piece) * passes / kSplits);
    work.end = int(i64(work.piece + 1) * passes / kSplits);
    //% else
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.end = passes;
    //% end
    //% if sharing == stream
    work.tile = tile;
    work.piece = 0;
    work.pieces = 1;
    work.first_slot = 0;
    //% end
    next += int(gridDim.x);
    place(work, tile);
    return true;
  }
};

//% if sharing != tiles
KILN_DEVICE u32 count_arrival(u32* counter) {
  u32 before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

//% if !sums_of_warps
// Past L1, which may hold what another block has overwritten since.
KILN_DEVICE void store_past_l1(float* to, float x) {
  asm volatile("st.global.cg.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}
KILN_DEVICE void store_past_l1(double* to, double x) {
  asm volatile("st.global.cg.f64 [%0], %1;" ::"l"(to), "d"(x) : "memory");
}
KILN_DEVICE void store_past_l1(i32* to, i32 x) {
  asm volatile("st.global.cg.s32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
KILN_DEVICE void load_past_l1(float& x, const float* from) {
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
}
KILN_DEVICE void load_past_l1(double& x, const double* from) {
  asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(x) : "l"(from) : "memory");
}
KILN_DEVICE void load_past_l1(i32& x, const i32* from) {
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
}

//% end
/// Where piece `piece` of a tile keeps its sums. Cut evenly, a block holds at most two unfinished
/// pieces: one that ends a tile (slot 2b), one that begins a tile (slot 2b + 1).
KILN_DEVICE u32 slot_of(const Work& work, int piece) {
  //% if sharing == stream
  return piece == 0 ? work.first_slot : work.first_slot + 2 * u32(piece) - 1;
  //% else
  return work.first_slot + u32(piece);
  //% end
}

//% if !sums_of_warps
/// True for the block that must finish the tile; its sums are then those of all pieces.
KILN_DEVICE bool combine(Acc (&sums)[kThreadM][kThreadN], const Work& work, void* workspace,
                         int thread) {
  if (work.pieces == 1) return true;
  __shared__ int is_last;
  u32* counter = static_cast<u32*>(workspace) + work.tile;
  Acc* partial =
      reinterpret_cast<Acc*>(static_cast<unsigned char*>(workspace) + kCounterBytes) + thread;
  Acc* mine = partial + i64(slot_of(work, work.piece)) * (kBlockM * kBlockN);
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
    const bool last = count_arrival(counter) == u32(work.pieces - 1);
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
  for (int piece = 0; piece < work.pieces; ++piece) {
    const Acc* from = partial + i64(slot_of(work, piece)) * (kBlockM * kBlockN);
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
//% end
