// device:  sm_80
// problem: fp32 N N 1024 1024 1024 groups=4 grouped=rows align=16 gather=rows scatter=rows
// config:  cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=1 width_a=4 width_b=4 copy=registers stages=2 ahead=0 lines=exchanged resident=1 sharing=tiles splits=1 group=8

// ---- parameters ----
using TypeA = float;              // elements of A
using TypeB = float;              // elements of B
using TypeD = float;              // elements of C and D
using Acc = float;                // accumulators
using Real = float;               // what the epilogue computes in
constexpr int kBlockM = 128;      // rows of D in a block's tile
constexpr int kBlockN = 128;      // columns of D in it
constexpr int kBlockK = 8;        // k of one pass
constexpr int kThreadM = 8;       // rows of a thread's accumulators
constexpr int kThreadN = 8;       // columns of them
constexpr int kLanesM = 4;        // lanes of a warp along the rows
constexpr bool kSpread = true;    // other lanes' rows and columns lie between a thread's quads
constexpr int kThreads = 256;     // of a block
constexpr int kResident = 1;      // blocks of a unit at once
constexpr int kWidthA = 4;        // elements of A read at once
constexpr int kWidthB = 4;        // elements of B read at once
constexpr int kStages = 2;        // tiles of A and B in shared memory
constexpr int kStoreWidth = 4;    // elements of D stored at once
constexpr int kGroupRows = 128;   // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;   // room in the tables of groups
constexpr int kGroup = 8;         // rows of tiles in a band of the rasterization
constexpr bool kAlongKA = true;   // A's neighbours run along k
constexpr bool kAlongKB = false;  // B's neighbours run along k

// ---- cuda/simt/copy.h ----
// Tiles of A and B on their way from memory to shared memory, where line k holds all rows of that
// k side by side. Expects types.h, convert.h, swizzle.h, cp_async_ptx.h, lanes.h, and from the
// parameters the tile.

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
KILN_DEVICE Acc widened(i8 x) { return Acc(x); }
KILN_DEVICE Acc widened(u8 x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

constexpr int kQuad = 16 / int(sizeof(Acc));  // elements that one access to shared memory brings

/// Elements that are read or written at once.
template <typename T, int Count>
struct alignas(Count * sizeof(T)) Some {
  T x[Count];
};

/// One operand's tile in shared memory.
template <int Rows>
struct Lines {
  static constexpr int kPitch = Rows;
  static constexpr int kElements = kPitch * kBlockK;
  static __device__ __forceinline__ int place(int k, int row) {
    return quad_place(k, row, Rows, kQuad, kBlockK);
  }
  /// The element of row `first` + `more`, seen from that of row `first` in line 0.
  static __device__ __forceinline__ int from(int first, int k, int more) {
    return place(k, first + more) - first;
  }
};

/// Part of one operand's tile that a thread copies, `Width` neighbours at a time. `Factors`: the
/// operand is B, and half of the tile's rows are lines of either factor. `Gathered`: it is A, whose
/// rows lie where its list of them says.
template <typename T, bool AlongK, int Rows, int Width, bool Factors = false, bool Gathered = false>
struct Copier {
  static constexpr int kReads = Rows * kBlockK / Width / kThreads;
  static_assert(kReads * Width * kThreads == Rows * kBlockK, "threads share the tile evenly");
  using Read = Some<T, Width>;

  const T* from;  // this thread's first element of the tile that comes next
  i64 ld;
  int row, k;  // of that element in the tile
  int rows;    // of the tile that exist
  Read held[kReads];

  __device__ __forceinline__ void start(const T* operand, i64 pitch, i64 first_row, i64 first_k,
                                        i64 all_rows, int thread) {
    ld = pitch;
    row = copied_row(thread, AlongK, Rows, Width, kBlockK);
    k = copied_k(thread, AlongK, Rows, Width, kBlockK);
    rows = int(min(all_rows - first_row, i64(Rows)));
    const i64 r = first_row + row, depth = first_k + k;
    from = operand + (AlongK ? r * ld + depth : depth * ld + r);
  }

  int row_of[Gathered ? kReads : 1];  // of each access the row of A
  /// Looks the rows up, of which the tile's first is `first_row` of the group's product.
  __device__ __forceinline__ void gather(const KilnGpuArgs& args, const T* operand, i64 first_row,
                                         i64 first_k) {
    from = operand + first_k + k;
    _Pragma("unroll") for (int i = 0; i < kReads; ++i) {
      const int line = row + rows_to(i);
      row_of[i] = line < rows ? row_of_a(args, first_row + line) : 0;
    }
  }

  // Accesses of one thread lie constant distances apart.
  static __device__ __forceinline__ constexpr int rows_to(int i) {
    return copied_row(i * kThreads, AlongK, Rows, Width, kBlockK);
  }
  static __device__ __forceinline__ constexpr int k_to(int i) {
    return copied_k(i * kThreads, AlongK, Rows, Width, kBlockK);
  }
  __device__ __forceinline__ const T* at(int i) const {
    if constexpr (Gathered) return from + row_of[i] * ld + k_to(i);
    return from + (AlongK ? rows_to(i) * ld + k_to(i) : k_to(i) * ld + rows_to(i));
  }
  /// How many elements of access `i` exist, when `depth` lines do.
  __device__ __forceinline__ int valid(int i, int depth) const {
    const int rows_left = rows - row - rows_to(i), k_left = depth - k - k_to(i);
    const int line = AlongK ? rows_left : k_left, along = AlongK ? k_left : rows_left;
    return line > 0 ? max(min(along, Width), 0) : 0;
  }
  __device__ __forceinline__ void next() { from += AlongK ? i64(kBlockK) : kBlockK * ld; }

  /// Reads the next tile into registers; `depth` of its lines exist.
  template <bool Whole>
  __device__ __forceinline__ void fetch(int depth) {
    _Pragma("unroll") for (int i = 0; i < kReads; ++i) {
      const int count = Whole ? Width : valid(i, depth);
      held[i] = {};
      if (count == Width) {
        held[i] = *reinterpret_cast<const Read*>(at(i));
      } else {
        _Pragma("unroll") for (int e = 0; e < Width; ++e)
          if (e < count) held[i].x[e] = at(i)[e];
      }
    }
  }
  __device__ __forceinline__ void store(Acc* to) const {
    constexpr int kTogether = AlongK ? 1 : Width < kQuad ? Width : kQuad;
    _Pragma("unroll") for (int i = 0; i < kReads; ++i) {
      _Pragma("unroll") for (int e = 0; e < Width; e += kTogether) {
        Some<Acc, kTogether> some;
        _Pragma("unroll") for (int j = 0; j < kTogether; ++j) some.x[j] = widened(held[i].x[e + j]);
        const int place =
            Lines<Rows>::place(k + k_to(i) + (AlongK ? e : 0), row + rows_to(i) + (AlongK ? 0 : e));
        *reinterpret_cast<Some<Acc, kTogether>*>(to + place) = some;
      }
    }
  }
};

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
  Copier<TypeA, kAlongKA, kBlockM, kWidthA, false, true> a;
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
  feed.a.gather(args, a, i64(work.left) * kBlockM, first_k);
  feed.b.start(b, args.ldb, i64(work.right) * kBlockN, first_k, args.n, thread);
  feed.pass = work.begin;
  feed.end = end;
  feed.k = args.k;
  feed.whole = feed.a.rows == kBlockM && feed.b.rows == kBlockN ? int(args.k / kBlockK) : 0;
  _Pragma("unroll 1") for (int s = 0; s + 1 < kStages; ++s) feed.begin(s);
  feed.finish(0, work.count > 0);
  int here = 0, free = kStages - 1;  // stages: the one to multiply, the one to fill
  for (int pass = work.begin; pass < end; ++pass) {
    const Acc* stage = feed.stages + here * kStage;
    const int next = here + 1 == kStages ? 0 : here + 1;
    const bool more = pass + 1 < end;
    feed.begin(free);
    _Pragma("unroll") for (int k = 0; k < kBlockK; ++k) {
      Factors factors;
      factors.read(stage, k, first_m, first_n);
      multiply_line(sums, factors.left, factors.right);
    }
    feed.finish(next, more);
    free = here;
    here = next;
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
  TypeD* d = row_of_d(out, row) + column;
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
  if (warp == 0) scheduler.groups.count_tiles(scheduler.rights, lane);
  __syncthreads();
  scheduler.tiles = scheduler.groups.tiles_before(scheduler.groups.count);
  const KilnGpuArgs& whole = args;
  Work work;
  while (scheduler.take(work)) {
    const KilnGpuArgs args =
        args_of_group(whole, work.batch, work.first_row, work.rows, kAlongKA ? whole.lda : 1);
    const auto* a = static_cast<const TypeA*>(args.a) + work.batch * args.stride_a;
    const auto* b = static_cast<const TypeB*>(args.b) + work.batch * args.stride_b;
    Acc sums[kThreadM][kThreadN] = {};
    sum_products(sums, args, work, a, b, first_m, first_n, thread);
    store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM,
               i64(work.right) * kBlockN, first_m, first_n, thread);
  }
}
