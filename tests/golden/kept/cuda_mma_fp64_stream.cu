// device:  sm_90a
// problem: fp64 N N 4096 4096 4096 align=16
// config:  cuda_mma block_m=128 block_n=64 block_k=32 warps_m=4 warps_n=2 stages=4 instruction_k=16 bits_a=2 base_a=5 shift_a=0 bits_b=2 base_b=5 shift_b=0 ahead=1 group=8 splits=1 stream=1

// ---- parameters ----
using TypeA = double;                 // elements of A
using TypeB = double;                 // elements of B
using TypeD = double;                 // elements of C and D
using Acc = double;                   // accumulators
using Real = double;                  // what the epilogue computes in
using Fragment = double;              // a register of an operand
constexpr int kBlockM = 128;          // rows of D in a block's tile
constexpr int kBlockN = 64;           // columns of D in it
constexpr int kBlockK = 32;           // k of one stage
constexpr int kWarpsM = 4;            // warps that share the tile's rows
constexpr int kThreads = 256;         // of a block
constexpr int kBlocks = 1;            // that are to fit one SM
constexpr int kTilesM = 2;            // 16 rows each, of a warp
constexpr int kTilesN = 4;            // 8 columns each, of a warp
constexpr int kChunks = 2;            // parts of a step, each with 4 registers of 16 rows of A
constexpr int kStepK = 16;            // k of one step
constexpr int kMmaSums = 4;           // registers of sums of the matrix instruction
constexpr int kMmaA = 8;              // registers of A
constexpr int kMmaB = 4;              // registers of B
constexpr int kStages = 4;            // of the ring
constexpr int kUnit = 16;             // bytes of one copy to shared memory
constexpr int kBitsA = 2;             // of a byte's place in a line of A's tile that are exchanged
constexpr int kBaseA = 5;             // the first of them
constexpr int kShiftA = 0;            // with bits of the line's number from here on
constexpr int kBitsB = 2;             // the same for B
constexpr int kBaseB = 5;             // 
constexpr int kShiftB = 0;            // 
constexpr int kStoreWidth = 2;        // elements of D stored at once
constexpr int kGroup = 8;             // rows of tiles in a band of the rasterization
constexpr int kCounterBytes = 65536;  // front of the workspace, counters of tiles
constexpr bool kAlongKA = true;       // A's neighbours run along k
constexpr bool kAlongKB = false;      // B's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+d"((d)[0]), "+d"((d)[1]), "+d"((d)[2]), "+d"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "d"((a)[0]), "d"((a)[1]), "d"((a)[2]), "d"((a)[3]), "d"((a)[4]), "d"((a)[5]), "d"((a)[6]), "d"((a)[7]), \
  "d"((b)[0]), "d"((b)[1]), "d"((b)[2]), "d"((b)[3])
#define KILN_ACC_IN(x) "d"(x)
#define KILN_ACC_OUT(x) "=d"(x)
#define KILN_LOAD_PAIR "ld.global.cg.v2.b64 {%0, %1}, [%2];"
#define KILN_STORE_PAIR "st.global.v2.b64 [%0], {%1, %2};"

// ---- cuda/mma/combine_ptx.h ----
// Accumulators to and from the workspace.

/// Past L1, which may hold what another block has overwritten since.
KILN_DEVICE void load_pair(Acc (&to)[2], const Acc* from) {
  asm volatile(KILN_LOAD_PAIR : KILN_ACC_OUT(to[0]), KILN_ACC_OUT(to[1]) : "l"(from) : "memory");
}
KILN_DEVICE void store_pair(Acc* to, const Acc* from) {
  asm volatile(KILN_STORE_PAIR ::"l"(to), KILN_ACC_IN(from[0]), KILN_ACC_IN(from[1]) : "memory");
}

// ---- cuda/mma/combine.h ----
// The reduction of partial accumulators by the block that finishes a tile last. Expects store.h,
// partials.h, combine_ptx.h.

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

// ---- cuda/mma/mma.cu ----
// Matrix instructions of a warp, on every NVIDIA GPU since Turing: a block's tiles of A and B pass
// through a ring of stages in shared memory, and each warp multiplies its part of the block's tile
// from registers. Where cp.async exists and the alignment allows it, copies of the next stages are
// always on their way; else the next stage waits in registers. Expects store.h and what stands
// before it.

constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
constexpr int kSteps = kBlockK / kStepK;  // of a stage
using CopierA = Copier<TypeA, TileA, kAlongKA, kBlockM>;
using CopierB = Copier<TypeB, TileB, kAlongKB, kBlockN>;
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
}

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
  const i64 row0 = i64(work.left) * kBlockM, column0 = i64(work.right) * kBlockN;
  const i64 k0 = i64(work.begin) * kBlockK;
  run(sums,
      CopierA::at(args.a, args.stride_a, work.batch, args.lda, row0, args.m, k0, args.k, my.thread),
      CopierB::at(args.b, args.stride_b, work.batch, args.ldb, column0, args.n, k0, args.k,
                  my.thread),
      ReaderA::at(my.row, my.lane), ReaderB::at(my.column, my.lane), ring, work.count);
}

KILN_DEVICE void store_tile(Sums& sums, const Work& work, const KilnGpuArgs& args, u32 ring) {
  const Place my = Place::mine();
  if (!combine(sums, work, args.workspace, my.thread)) return;
  store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM + my.row,
             i64(work.right) * kBlockN + my.column, ring + u32(my.warp * 16 * kRowPitch), my.lane);
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
                              (int(args.n) + kBlockN - 1) / kBlockN,
                              (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  const u32 ring = shared_address(shared_bytes);
  // In shared memory, because registers are full while the block multiplies.
  __shared__ Work work;
  __shared__ TileScheduler scheduler;
  __shared__ bool more;
  if (threadIdx.x == 0) scheduler = scheduler_of(args);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  for (;;) {
    // Also until every warp has stored its sums, which lie where the next copies go.
    __syncthreads();
    if (threadIdx.x == 0) more = scheduler.take(work);
    __syncthreads();
    if (!more) return;
    work_on(work, args, ring);
  }
}
