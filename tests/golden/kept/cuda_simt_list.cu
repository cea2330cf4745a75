// device:  sm_80
// problem: fp32 N N 512 512 128 groups=16 grouped=list
// config:  cuda_simt block_m=32 block_n=32 block_k=8 thread_m=4 thread_n=4 lanes_m=4 spread=0 width_a=1 width_b=1 copy=registers stages=1 ahead=0 lines=padded resident=1 sharing=tiles splits=1 group=8

// ---- parameters ----
using TypeA = float;              // elements of A
using TypeB = float;              // elements of B
using TypeD = float;              // elements of C and D
using Acc = float;                // accumulators
using Real = float;               // what the epilogue computes in
constexpr int kBlockM = 32;       // rows of D in a block's tile
constexpr int kBlockN = 32;       // columns of D in it
constexpr int kBlockK = 8;        // k of one pass
constexpr int kThreadM = 4;       // rows of a thread's accumulators
constexpr int kThreadN = 4;       // columns of them
constexpr int kLanesM = 4;        // lanes of a warp along the rows
constexpr bool kSpread = false;   // other lanes' rows and columns lie between a thread's quads
constexpr int kThreads = 64;      // of a block
constexpr int kResident = 1;      // blocks of a unit at once
constexpr int kWidthA = 1;        // elements of A read at once
constexpr int kWidthB = 1;        // elements of B read at once
constexpr int kStages = 1;        // tiles of A and B in shared memory
constexpr int kStoreWidth = 1;    // elements of D stored at once
constexpr int kGroupDepth = 8;    // k of one stage
constexpr int kListColumns = 32;  // columns of D in a tile
constexpr int kGroupRows = 32;    // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;   // room in the tables of groups
constexpr int kGroup = 8;         // rows of tiles in a band of the rasterization
constexpr bool kAlongKA = true;   // A's neighbours run along k
constexpr bool kAlongKB = false;  // B's neighbours run along k

// ---- cuda/simt/simt.cu ----
// Ordinary multiply-adds, for every type and every layout. Each thread keeps kThreadM × kThreadN
// sums; tiles of A and B pass through shared memory, or are read where they lie. Expects abi.h,
// types.h, convert.h, epilogue.h, lanes.h, tile_scheduler.h, combine.h where k is divided, and
// copy.h where tiles are copied.

constexpr int kLanesN = 32 / kLanesM;
constexpr int kWarpsM = kBlockM / (kLanesM * kThreadM);
static_assert(kWarpsM * kLanesM * kThreadM == kBlockM, "warps cover the tile's rows");
static_assert(kThreads / 32 / kWarpsM * kLanesN * kThreadN == kBlockN, "and its columns");

/// How many of a thread's `count` rows or columns lie side by side.
KILN_DEVICE constexpr int run_of(int count) {
  constexpr int kMost = 16 / int(sizeof(Acc));
  return !kSpread ? count : count % kMost == 0 ? kMost : count % 2 == 0 ? 2 : 1;
}
/// How far the i-th of them is from the first, the runs of all lanes coming in between.
KILN_DEVICE constexpr int apart(int i, int count, int lanes) {
  return i / run_of(count) * run_of(count) * lanes + i % run_of(count);
}
constexpr int kRunM = run_of(kThreadM), kRunN = run_of(kThreadN);

/// One step of k. A snake: each product shares a factor with the one before, which spares the
/// register file a read.
KILN_DEVICE void multiply_line(Acc (&sums)[kThreadM][kThreadN], const Acc (&left)[kThreadM],
                               const Acc (&right)[kThreadN]) {
  constexpr int kPair = kThreadM % 2 == 0 ? 2 : 1;
  _Pragma("unroll") for (int i = 0; i < kThreadM; i += kPair)
    _Pragma("unroll") for (int turn = 0; turn < kThreadN; ++turn) {
      const int j = i / kPair % 2 == 0 ? turn : kThreadN - 1 - turn;
      _Pragma("unroll") for (int e = 0; e < kPair; ++e) {
        const int row = i + (turn % 2 == 0 ? e : kPair - 1 - e);
        sums[row][j] += left[row] * right[j];
      }
    }
}

/// A thread's rows (or columns) of line `k` of a tile; `own` is the first of them in line 0.
template <int Rows, int Count, int Lanes>
KILN_DEVICE void read_line(Acc (&to)[Count], const Acc* own, int k, int first) {
  constexpr int kTogether = Count % kQuad == 0 ? kQuad : Count % 2 == 0 ? 2 : 1;
  _Pragma("unroll") for (int i = 0; i < Count; i += kTogether) {
    const auto some = *reinterpret_cast<const Some<Acc, kTogether>*>(
        own + Lines<Rows>::from(first, k, apart(i, Count, Lanes)));
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e) to[i + e] = some.x[e];
  }
}

constexpr int kElementsA = Lines<kBlockM>::kElements;
constexpr int kStage = kElementsA + Lines<kBlockN>::kElements;  // elements

/// The factors of one step of k.
struct Factors {
  Acc left[kThreadM], right[kThreadN];
  __device__ __forceinline__ void read(const Acc* stage, int k, int first_m, int first_n) {
    read_line<kBlockM, kThreadM, kLanesM>(left, stage + first_m, k, first_m);
    read_line<kBlockN, kThreadN, kLanesN>(right, stage + kElementsA + first_n, k, first_n);
  }
};

/// Both operands on their way, one pass of k after the other.
struct Feed {
  Copier<TypeA, kAlongKA, kBlockM, kWidthA> a;
  Copier<TypeB, kAlongKB, kBlockN, kWidthB> b;
  Acc* stages;
  i64 k;
  int pass, end;
  int whole;  // passes before this one find whole tiles

  /// Starts to bring the next pass, if there is one, to stage `to`.
  __device__ __forceinline__ void begin(int to) {
    if (pass < end) {
      if (pass < whole)
        bring<true>(to, kBlockK);
      else
        bring<false>(to, int(min(k - i64(pass) * kBlockK, i64(kBlockK))));
      a.next();
      b.next();
      ++pass;
    }
  }

  template <bool Whole>
  __device__ __forceinline__ void bring(int to, int depth) {
    a.template fetch<Whole>(depth);
    b.template fetch<Whole>(depth);
  }

  /// Stage `at` is whole for every thread when all have come here.
  __device__ __forceinline__ void finish(int at, bool any) {
    if (any) {
      a.store(stages + at * kStage);
      b.store(stages + at * kStage + kElementsA);
    }
    __syncthreads();
  }
};

KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], const KilnGpuArgs& args,
                              const Work& work, const TypeA* a, const TypeB* b, int first_m,
                              int first_n, int thread) {
  extern __shared__ __align__(16) unsigned char shared[];
  Feed feed;
  feed.stages = reinterpret_cast<Acc*>(shared);
  const int end = work.begin + work.count;
  const i64 first_k = i64(work.begin) * kBlockK;
  feed.a.start(a, args.lda, i64(work.left) * kBlockM, first_k, args.m, thread);
  feed.b.start(b, args.ldb, i64(work.right) * kBlockN, first_k, args.n, thread);
  feed.pass = work.begin;
  feed.end = end;
  feed.k = args.k;
  feed.whole = feed.a.rows == kBlockM && feed.b.rows == kBlockN ? int(args.k / kBlockK) : 0;
  for (int pass = work.begin; pass < end; ++pass) {
    feed.begin(0);
    feed.finish(0, true);
    _Pragma("unroll") for (int k = 0; k < kBlockK; ++k) {
      Factors factors;
      factors.read(feed.stages, k, first_m, first_n);
      multiply_line(sums, factors.left, factors.right);
    }
    __syncthreads();
  }
}

KILN_DEVICE TypeD finished(const Output& out, Acc sum,
                           i64 row, i64 column) {
  Real x = product(Real(sum), out.alpha);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  return from_real(x, TypeD{});
}

struct alignas(kStoreWidth * sizeof(TypeD)) Several {
  TypeD x[kStoreWidth];
};
/// Neighbours of one row of D, those inside.
KILN_DEVICE void store_several(const Output& out, const Acc* sums, i64 row, i64 column) {
  TypeD* d = out.d + row * out.ldd + column;
  Several several;
  _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e)
  if (column + e < out.columns) several.x[e] = finished(out, sums[e], row, column + e);
  if (column + kStoreWidth <= out.columns) {
    *reinterpret_cast<Several*>(d) = several;
  } else {
    _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e)
      if (column + e < out.columns) d[e] = several.x[e];
  }
}

KILN_DEVICE void store_sums(const Acc (&sums)[kThreadM][kThreadN], const Output& out, i64 row0,
                            i64 column0, int first_m, int first_n, int) {
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
    const i64 row = row0 + first_m + apart(i, kThreadM, kLanesM);
    if (row >= out.rows) continue;
    _Pragma("unroll") for (int j = 0; j < kThreadN; j += kStoreWidth)
      store_several(out, &sums[i][j], row, column0 + first_n + apart(j, kThreadN, kLanesN));
  }
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args) {
  return TileScheduler::start(int(ceil_div(args.m, kBlockM)),
                              int(ceil_div(args.n, kBlockN)),
                              int(ceil_div(args.k, kBlockK)), int(args.batch), 0);
}

extern "C" __global__ void __launch_bounds__(kThreads, kResident)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  const int thread = int(threadIdx.x), warp = thread / 32, lane = thread & 31;
  const int first_m = warp % kWarpsM * kLanesM * kThreadM + lane_part(lane, kLanesM, true) * kRunM;
  const int first_n = warp / kWarpsM * kLanesN * kThreadN + lane_part(lane, kLanesM, false) * kRunN;
  TileScheduler scheduler = scheduler_of(args);
  __shared__ u32 tables[2 * kMostGroups + 1];
  scheduler.groups = Groups::at(u32(__cvta_generic_to_shared(tables)), args);
  scheduler.groups.read(args, thread, kThreads);
  __syncthreads();
  if (warp == 0) scheduler.groups.count_tiles(lane);
  __syncthreads();
  scheduler.tiles = scheduler.groups.tiles_before(scheduler.groups.count);
  const KilnGpuArgs& whole = args;
  Work work;
  while (scheduler.take(work)) {
    const KilnGpuArgs args = args_of_product(whole, work.batch);
    const auto* a = static_cast<const TypeA*>(args.a) + work.batch * args.stride_a;
    const auto* b = static_cast<const TypeB*>(args.b) + work.batch * args.stride_b;
    Acc sums[kThreadM][kThreadN] = {};
    sum_products(sums, args, work, a, b, first_m, first_n, thread);
    store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM,
               i64(work.right) * kBlockN, first_m, first_n, thread);
  }
}
