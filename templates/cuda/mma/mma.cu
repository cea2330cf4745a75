// Matrix instructions of a warp, on every NVIDIA GPU since Turing: a block's tiles of A and B pass
// through a ring of stages in shared memory, and each warp multiplies its part of the block's tile
// from registers. Where cp.async exists and the alignment allows it, copies of the next stages are
// always on their way; else the next stage waits in registers. Expects store.h and what stands
// before it.

constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
constexpr int kSteps = kBlockK / kStepK;  // of a stage
//% if gather
using CopierA = Copier<TypeA, TileA, kAlongKA, kBlockM, false, true>;
//% else
using CopierA = Copier<TypeA, TileA, kAlongKA, kBlockM>;
//% end
//% if gate
using CopierB = Copier<TypeB, TileB, kAlongKB, kBlockN, true>;
constexpr int kColumns = kBlockN / 2;  // of D in a tile
//% else
using CopierB = Copier<TypeB, TileB, kAlongKB, kBlockN>;
//% end
using ReaderA = TileA::Reader<kTilesM * 2>;
using ReaderB = TileB::Reader<kTilesN>;

/// One step's operands of a warp.
struct Fragments {
  Fragment a[kTilesM * 2][kChunks * 2], b[kTilesN][kChunks * 2];
};

KILN_DEVICE void read_step(Fragments& to, const ReaderA& a, const ReaderB& b, u32 stage, int step) {
  a.read(to.a, stage, step);
  b.read(to.b, stage + TileA::kBytes, step);
}

KILN_DEVICE void multiply(Sums& sums, const Fragments& f) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i) {
    Fragment a[kChunks * 4];
    _Pragma("unroll") for (int k = 0; k < kChunks * 2; ++k) {
      a[k * 2] = f.a[i * 2][k];
      a[k * 2 + 1] = f.a[i * 2 + 1][k];
    }
    // Every second row of tiles goes backwards: it begins with what was used last.
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j) {
      const int n = i % 2 ? kTilesN - 1 - j : j;
      multiply_step(sums[i][n], a, f.b[n]);
    }
  }
}

//% if async
/// The products of `count` stages.
KILN_DEVICE void run(Sums& sums, CopierA copy_a, CopierB copy_b, const ReaderA& a, const ReaderB& b,
                     u32 ring, int count) {
  int copied = 0;
  u32 to = ring;
  const auto copy_next = [&] {
    if (copied < count) {
      copy_a.copy(to);
      copy_b.copy(to + TileA::kBytes);
    }
    ++copied;
    to = to == ring + (kStages - 1) * kStageBytes ? ring : to + kStageBytes;
    // Groups without copies keep the count.
    cp_async_commit();
  };
  _Pragma("unroll") for (int s = 0; s < kStages - 1; ++s) copy_next();
  cp_async_wait<kStages - 2>();
  __syncthreads();
  u32 stage = ring;
  const auto next_stage = [&] {
    stage = stage == ring + (kStages - 1) * kStageBytes ? ring : stage + kStageBytes;
    cp_async_wait<kStages - 2>();
    __syncthreads();
  };
  //% if ahead
  // The operands of the next step are read while this one multiplies, across stages too.
  Fragments f[2];
  read_step(f[0], a, b, stage, 0);
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    _Pragma("unroll") for (int step = 0; step < kSteps; ++step) {
      if (step == 0) copy_next();
      if (step == kSteps - 1) next_stage();
      read_step(f[(step + 1) % 2], a, b, stage, (step + 1) % kSteps);
      multiply(sums, f[step % 2]);
    }
  }
  //% else
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    copy_next();
    _Pragma("unroll") for (int step = 0; step < kSteps; ++step) {
      Fragments f;
      read_step(f, a, b, stage, step);
      // All of the stage is read: while this step multiplies, faster warps begin the next one.
      if (step == kSteps - 1) next_stage();
      multiply(sums, f);
    }
  }
  //% end
}
//% else
/// The products of `count` stages, two buffers by turns.
KILN_DEVICE void run(Sums& sums, CopierA copy_a, CopierB copy_b, const ReaderA& a, const ReaderB& b,
                     u32 ring, int count) {
  const auto store = [&](u32 to) {
    copy_a.store(to);
    copy_b.store(to + TileA::kBytes);
  };
  copy_a.fetch();
  copy_b.fetch();
  u32 offset = 0;
  store(ring);
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    __syncthreads();
    const bool more = i + 1 < count;
    if (more) {
      copy_a.fetch();
      copy_b.fetch();
    }
    _Pragma("unroll") for (int step = 0; step < kSteps; ++step) {
      Fragments f;
      read_step(f, a, b, ring + offset, step);
      multiply(sums, f);
    }
    // The other buffer was read before the barrier above.
    offset ^= kStageBytes;
    if (more) store(ring + offset);
  }
}
//% end

/// A thread of the block, by what it has to do with a tile. Worked out anew before and after the
/// products: while the block multiplies, registers are full.
struct Place {
  int thread, lane, warp, row, column;  // row, column: of its warp's part of the tile
  static __device__ __forceinline__ Place mine() {
    Place p;
    p.thread = int(threadIdx.x);
    forget(p.thread);
    p.lane = p.thread & 31;
    // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
    p.warp = __shfl_sync(0xffffffff, p.thread / 32, 0);
    p.row = p.warp % kWarpsM * kTilesM * 16;
    p.column = p.warp / kWarpsM * kTilesN * 8;
    return p;
  }
};

/// The products of one tile, or of a part of its k.
KILN_DEVICE void run_tile(Sums& sums, const Work& work, const KilnGpuArgs& args, u32 ring) {
  const Place my = Place::mine();
  //% if gate
  const i64 row0 = i64(work.left) * kBlockM, column0 = i64(work.right) * kColumns;
  //% else
  const i64 row0 = i64(work.left) * kBlockM, column0 = i64(work.right) * kBlockN;
  //% end
  const i64 k0 = i64(work.begin) * kBlockK;
  //% if gather
  CopierA copy_a =
      CopierA::at(args.a, args.stride_a, work.batch, args.lda, row0, args.m, k0, args.k, my.thread);
  copy_a.gather(args, row0, k0);
  run(sums, copy_a,
      CopierB::at(args.b, args.stride_b, work.batch, args.ldb, column0, args.n, k0, args.k,
                  my.thread),
      ReaderA::at(my.row, my.lane), ReaderB::at(my.column, my.lane), ring, work.count);
  //% else
  run(sums,
      CopierA::at(args.a, args.stride_a, work.batch, args.lda, row0, args.m, k0, args.k, my.thread),
      CopierB::at(args.b, args.stride_b, work.batch, args.ldb, column0, args.n, k0, args.k,
                  my.thread),
      ReaderA::at(my.row, my.lane), ReaderB::at(my.column, my.lane), ring, work.count);
  //% end
}

KILN_DEVICE void store_tile(Sums& sums, const Work& work, const KilnGpuArgs& args, u32 ring) {
  const Place my = Place::mine();
  //% if sharing != tiles
  if (!combine(sums, work, args.workspace, my.thread)) return;
  //% end
  //% if gate
  store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM + my.row,
             i64(work.right) * kColumns + my.column / 2, ring + u32(my.warp * 16 * kRowPitch),
             my.lane);
  //% else
  store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM + my.row,
             i64(work.right) * kBlockN + my.column, ring + u32(my.warp * 16 * kRowPitch), my.lane);
  //% end
}

KILN_DEVICE void work_on(const Work& work, const KilnGpuArgs& args, u32 ring) {
  Sums sums = {};
  run_tile(sums, work, args, ring);
  // The ring is free when every warp has read its last stage.
  __syncthreads();
  store_tile(sums, work, args, ring);
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args) {
  return TileScheduler::start((int(args.m) + kBlockM - 1) / kBlockM,
                              //% if gate
                              (int(args.n) + kColumns - 1) / kColumns,
                              //% else
                              (int(args.n) + kBlockN - 1) / kBlockN,
                              //% end
                              (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  const u32 ring = shared_address(shared_bytes);
  // In shared memory, because registers are full while the block multiplies.
  __shared__ Work work;
  //% if groups
  __shared__ u32 tables[2 * kMostGroups + 1];
  //% if lists
  __shared__ TileScheduler scheduler;
  __shared__ bool more;
  //% else
  __shared__ bool any;
  //% end
  const Groups groups = Groups::at(shared_address(tables), args);
  //% if overlaps
  // The list may be the work of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  //% end
  groups.read(args, int(threadIdx.x), kThreads);
  __syncthreads();
  //% if row_groups
  if (threadIdx.x < 32) groups.count_tiles(scheduler_of(args).rights, int(threadIdx.x));
  __syncthreads();
  //% end
  //% if lists
  if (threadIdx.x < 32) groups.count_tiles(int(threadIdx.x));
  __syncthreads();
  if (threadIdx.x == 0) {
    scheduler = scheduler_of(args);
    scheduler.groups = groups;
    scheduler.tiles = groups.tiles_before(groups.count);
  }
  for (;;) {
    // Also until every warp has stored its sums, which lie where the next copies go.
    __syncthreads();
    if (threadIdx.x == 0) more = scheduler.take(work);
    __syncthreads();
    if (!more) return;
    work_on(work, args_of_product(args, work.batch), ring);
  }
  //% else
  if (threadIdx.x == 0) {
    TileScheduler scheduler = scheduler_of(args);
    scheduler.groups = groups;
    //% if row_groups
    scheduler.tiles = groups.tiles_before(groups.count);
    //% end
    any = scheduler.take(work);
  }
  __syncthreads();
  if (!any) return;
  //% if k_groups
  work_on(work,
          args_of_group(args, work.batch, work.first_k, work.k, kAlongKA ? 1 : args.lda,
                        kAlongKB ? 1 : args.ldb),
          ring);
  //% else
  work_on(work, args_of_group(args, work.batch, work.first_row, work.rows, kAlongKA ? args.lda : 1),
          ring);
  //% end
  //% end
  //% else
  //% if sharing == stream
  __shared__ TileScheduler scheduler;
  __shared__ bool more;
  if (threadIdx.x == 0) scheduler = scheduler_of(args);
  //% else
  if (threadIdx.x == 0) scheduler_of(args).take(work);
  //% end
  //% if overlaps
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  //% end
  //% if sharing == stream
  for (;;) {
    // Also until every warp has stored its sums, which lie where the next copies go.
    __syncthreads();
    if (threadIdx.x == 0) more = scheduler.take(work);
    __syncthreads();
    if (!more) return;
    work_on(work, args, ring);
  }
  //% else
  __syncthreads();
  work_on(work, args, ring);
  //% end
  //% end
}
