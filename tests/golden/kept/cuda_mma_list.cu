// device:  sm_80
// problem: bf16 N T 512 4096 128 groups=16 grouped=list epilogue=bias_col align=16
// config:  cuda_mma block_m=64 block_n=64 block_k=64 warps_m=2 warps_n=2 stages=3 instruction_k=16 bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1

// ---- cuda/common/list_abi.h ----
// A list of products as the host hands it over: plain C, no headers, as abi.h.

/// One product, in canonical form, with leading dimensions in elements.
struct KilnListEntry {
  long long m, n, k;
  long long lda, ldb, ldc, ldd;
  const void* a;
  const void* b;
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
};

// ---- cuda/common/list_chunk.h ----
// What a step that brings a list is given of it. Expects list_abi.h.

/// Some entries of a list, few enough for the parameters of a kernel: `count` of them, from entry
/// `first` on.
struct KilnListChunk {
  long long first, count;
  KilnListEntry entries[32];
};

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = Bfloat;             // elements of B
using TypeD = Bfloat;             // elements of C and D
using Acc = float;                // accumulators
using Real = float;               // what the epilogue computes in
using Fragment = u32;             // a register of an operand
constexpr int kBlockM = 64;       // rows of D in a block's tile
constexpr int kBlockN = 64;       // columns of D in it
constexpr int kBlockK = 64;       // k of one stage
constexpr int kWarpsM = 2;        // warps that share the tile's rows
constexpr int kThreads = 128;     // of a block
constexpr int kBlocks = 3;        // that are to fit one SM
constexpr int kTilesM = 2;        // 16 rows each, of a warp
constexpr int kTilesN = 4;        // 8 columns each, of a warp
constexpr int kChunks = 1;        // parts of a step, each with 4 registers of 16 rows of A
constexpr int kStepK = 16;        // k of one step
constexpr int kMmaSums = 4;       // registers of sums of the matrix instruction
constexpr int kMmaA = 4;          // registers of A
constexpr int kMmaB = 2;          // registers of B
constexpr int kStages = 3;        // of the ring
constexpr int kUnit = 16;         // bytes of one copy to shared memory
constexpr int kBitsA = 3;         // of a byte's place in a line of A's tile that are exchanged
constexpr int kBaseA = 4;         // the first of them
constexpr int kShiftA = 0;        // with bits of the line's number from here on
constexpr int kBitsB = 3;         // the same for B
constexpr int kBaseB = 4;         // 
constexpr int kShiftB = 0;        // 
constexpr int kStoreWidth = 8;    // elements of D stored at once
constexpr int kGroup = 8;         // rows of tiles in a band of the rasterization
constexpr int kGroupDepth = 64;   // k of one stage
constexpr int kListColumns = 64;  // columns of D in a tile
constexpr int kGroupRows = 64;    // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;   // room in the tables of groups
constexpr bool kAlongKA = true;   // A's neighbours run along k
constexpr bool kAlongKB = true;   // B's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/common/group_args.h ----
// One product of a list as a call of its own. Expects abi.h, list_abi.h.

/// The list in the workspace.
KILN_DEVICE const KilnListEntry* entries_of(const KilnGpuArgs& args) {
  return static_cast<const KilnListEntry*>(args.workspace);
}

/// The call of one product, seen as a batch's.
KILN_DEVICE KilnGpuArgs args_of_product(const KilnGpuArgs& args, int product) {
  const KilnListEntry& entry = entries_of(args)[product];
  KilnGpuArgs own = args;
  own.m = entry.m;
  own.n = entry.n;
  own.k = entry.k;
  own.lda = entry.lda;
  own.ldb = entry.ldb;
  own.ldc = entry.ldc;
  own.ldd = entry.ldd;
  own.stride_a = own.stride_b = own.stride_c = own.stride_d = 0;
  own.a = entry.a;
  own.b = entry.b;
  own.c = entry.c;
  own.d = entry.d;
  own.bias = entry.bias;
  own.residual = entry.residual;
  return own;
}

// ---- cuda/common/groups.h ----
// The products of a list, and which tiles each has. The list lies in the workspace, so each block
// reads it and counts tiles before its first one. Expects abi.h, list_abi.h, groups_ptx.h,
// group_args.h.

/// Two tables in shared memory, of kMostGroups words and one more.
struct Groups {
  u32 widths;  // of each product the tiles along its rows
  u32 tiles;   // before each product, and of all
  int count;
  const KilnListEntry* entries;

  static __device__ __forceinline__ Groups at(u32 base, const KilnGpuArgs& args) {
    return {base, base + kMostGroups * 4, int(args.batch), entries_of(args)};
  }
  /// By all threads of a block. `tiles` has the tiles along each product's columns until they are
  /// counted.
  __device__ __forceinline__ void read(const KilnGpuArgs&, int thread, int threads) const {
    for (int i = thread; i < count; i += threads) {
      store_shared_word(widths + i * 4, u32((int(entries[i].n) + kListColumns - 1) / kListColumns));
      store_shared_word(tiles + i * 4, u32((int(entries[i].m) + kGroupRows - 1) / kGroupRows));
    }
  }
  /// By the lanes of one warp, once those are there.
  __device__ __forceinline__ void count_tiles(
      int lane) const {
    int before = 0;
    for (int first = 0; first < count; first += 32) {
      const int i = first + lane;
      const int own = i < count ? tiles_before(i) * width(i) : 0;
      int sum = own;
      _Pragma("unroll") for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_sync(0xffffffff, sum, max(0, lane - step));
        if (lane >= step) sum += other;
      }
      if (i < count) store_shared_word(tiles + i * 4, u32(before + sum - own));
      before += __shfl_sync(0xffffffff, sum, 31);
    }
    if (lane == 0) store_shared_word(tiles + count * 4, u32(before));
  }
  __device__ __forceinline__ int width(int product) const {
    return int(load_shared_word(widths + product * 4));
  }
  __device__ __forceinline__ int tiles_before(int group) const {
    return int(load_shared_word(tiles + group * 4));
  }
  /// The group that has this tile. Without branches, on which lanes of a warp might part.
  __device__ __forceinline__ int holding(int tile) const {
    int group = 0;
    _Pragma("unroll") for (int step = kMostGroups / 2; step > 0; step /= 2) {
      const int further = min(group + step, count - 1);
      group = tiles_before(further) <= tile ? further : group;
    }
    return group;
  }
};

// ---- cuda/common/tile_scheduler.h ----
// The tile scheduler: which tile a block computes next, and which part of its k. D's tiles form a
// grid: `left` counts tiles along the rows of the left operand, `right` along those of the right
// one (A and B, or B and A where D is computed transposed). k is counted in pipeline stages. Blocks
// of a cluster get neighbouring tiles and the same k; without clusters each block is a cluster of
// its own.
// Products of a list have tiles and k of their own; those of one lie behind those of the one before
// it, so that an empty product has none. Expects groups.h.

struct Work {
  int left, right;  // tile coordinates of this block
  int batch;
  int begin, count;  // stages of k
};

struct TileScheduler {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;  // of the block in its cluster
  Groups groups;

  /// The counts are of clusters' tiles, and 32-bit on purpose: divisions of 64-bit numbers took
  /// 1 us before the first copy (H200).
  static __device__ __forceinline__ TileScheduler start(int lefts, int rights, int stages,
                                                        int batches, u32 rank) {
    TileScheduler s;
    s.rank = rank;
    s.lefts = lefts;
    s.rights = rights;
    s.stages = stages;
    s.tiles = lefts * rights * batches;
    s.clusters = int(gridDim.x);
    s.next = int(blockIdx.x);
    return s;
  }

  /// Rasterization in bands of kGroup tiles along one side, so that L2 serves what they share.
  __device__ __forceinline__ void place(Work& work, int tile) const {
    work.batch = groups.holding(tile);
    const int at = tile - groups.tiles_before(work.batch);
    const int rights = groups.width(work.batch);
    const int lefts =
        (groups.tiles_before(work.batch + 1) - groups.tiles_before(work.batch)) / rights;
    const int band = at / (kGroup * rights), in_band = at - band * kGroup * rights;
    const int height = min(lefts - band * kGroup, kGroup);
    const int across = in_band / height;
    work.left = band * kGroup + in_band - across * height;
    work.right = across;
  }

  /// The block's next work; false when there is none.
  __device__ __forceinline__ bool take(Work& work) {
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.count = stages;
    next += clusters;
    place(work, tile);
    // None without k: D is then written from sums of zero.
    work.count = (int(groups.entries[work.batch].k) + kGroupDepth - 1) / kGroupDepth;
    return true;
  }
};

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
  __shared__ u32 tables[2 * kMostGroups + 1];
  __shared__ TileScheduler scheduler;
  __shared__ bool more;
  const Groups groups = Groups::at(shared_address(tables), args);
  groups.read(args, int(threadIdx.x), kThreads);
  __syncthreads();
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
}

// ---- cuda/common/take_list.cu ----
// The steps before a list's products. Expects abi.h, list_chunk.h, types.h.

/// Writes entries to their places in the workspace, where the kernel of the products reads them.
extern "C" __global__ void __launch_bounds__(128)
    kiln_take_list(const __grid_constant__ KilnGpuArgs args,
                   const __grid_constant__ KilnListChunk chunk) {
  const u64* const from = reinterpret_cast<const u64*>(chunk.entries);
  u64* const to = reinterpret_cast<u64*>(static_cast<KilnListEntry*>(args.workspace) + chunk.first);
  const int words = int(chunk.count) * int(sizeof(KilnListEntry) / sizeof(u64));
  for (int i = int(threadIdx.x); i < words; i += 128) to[i] = from[i];
}
