// device:  sm_90a
// problem: fp32 N N 4096 4096 4096 align=16
// config:  cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=16 lanes_m=4 spread=1 width_a=1 width_b=4 copy=async stages=3 ahead=1 lines=padded resident=2 sharing=stream splits=1 group=8

// ---- parameters ----
using TypeA = float;                  // elements of A
using TypeB = float;                  // elements of B
using TypeD = float;                  // elements of C and D
using Acc = float;                    // accumulators
using Real = float;                   // what the epilogue computes in
constexpr int kBlockM = 128;          // rows of D in a block's tile
constexpr int kBlockN = 128;          // columns of D in it
constexpr int kBlockK = 8;            // k of one pass
constexpr int kThreadM = 8;           // rows of a thread's accumulators
constexpr int kThreadN = 16;          // columns of them
constexpr int kLanesM = 4;            // lanes of a warp along the rows
constexpr bool kSpread = true;        // other lanes' rows and columns lie between a thread's quads
constexpr int kThreads = 128;         // of a block
constexpr int kResident = 2;          // blocks of a unit at once
constexpr int kWidthA = 1;            // elements of A read at once
constexpr int kWidthB = 4;            // elements of B read at once
constexpr int kStages = 3;            // tiles of A and B in shared memory
constexpr int kStoreWidth = 4;        // elements of D stored at once
constexpr int kGroup = 8;             // rows of tiles in a band of the rasterization
constexpr int kCounterBytes = 65536;  // front of the workspace, counters of tiles
constexpr bool kAlongKA = true;       // A's neighbours run along k
constexpr bool kAlongKB = false;      // B's neighbours run along k

// ---- cuda/common/tile_scheduler.h ----
// The tile scheduler: which tile a block computes next, and which part of its k. D's tiles form a
// grid: `left` counts tiles along the rows of the left operand, `right` along those of the right
// one (A and B, or B and A where D is computed transposed). k is counted in pipeline stages. Blocks
// of a cluster get neighbouring tiles and the same k; without clusters each block is a cluster of
// its own.

struct Work {
  int left, right;  // tile coordinates of this block
  int batch;
  int begin, count;  // stages of k
  int part, parts;  // which of how many parts of the tile's k
  int tile;         // number of the cluster's tile
  u32 first_slot;   // of the workspace, for the accumulators of the tile's first part
};

struct TileScheduler {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;  // of the block in its cluster
  int divided_tiles;  // the first ones, whose k is divided evenly among all clusters
  int position, end;  // of this cluster's part of their k, in stages

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
    // Stream-K: full waves but the last go tile by tile; the k of the rest, one to two waves, is
    // divided evenly.
    const int left_over = s.tiles % s.clusters;
    s.divided_tiles = left_over == 0 ? 0 : min(s.tiles, left_over + s.clusters);
    const u32 all = u32(s.divided_tiles * s.stages);
    s.position = int(u32(s.next) * all / u32(s.clusters));
    s.end = int(u32(s.next + 1) * all / u32(s.clusters));
    s.next += s.divided_tiles;
    return s;
  }

  /// Rasterization in bands of kGroup tiles along one side, so that L2 serves what they share.
  __device__ __forceinline__ void place(Work& work, int tile) const {
    work.batch = 0;
    const int at = tile;
    const int band = at / (kGroup * rights), in_band = at - band * kGroup * rights;
    const int height = min(lefts - band * kGroup, kGroup);
    const int across = in_band / height;
    work.left = band * kGroup + in_band - across * height;
    work.right = across;
  }

  /// The block's next work; false when there is none.
  __device__ __forceinline__ bool take(Work& work) {
    if (position < end) {
      const int tile = position / stages;
      const u32 all = u32(divided_tiles * stages), before = u32(tile * stages);
      work.begin = position - tile * stages;
      work.count = min(stages - work.begin, end - position);
      const int first = int(((before + 1) * u32(clusters) - 1) / all);
      const int last = int(((before + u32(stages)) * u32(clusters) - 1) / all);
      work.parts = last - first + 1;
      work.part = int(blockIdx.x) - first;
      work.tile = tile;
      work.first_slot = u32(first) * 2 + 1;
      position += work.count;
      place(work, tile);
      return true;
    }
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.count = stages;
    work.part = 0;
    work.parts = 1;
    next += clusters;
    place(work, tile);
    return true;
  }
};

// ---- cuda/simt/combine.h ----
// The reduction of partial accumulators by the block that finishes a tile last. Expects partials.h,
// combine_ptx.h.

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
  __syncthreads();
  if (thread == 0) {
    const bool last = count_arrival(counter) == u32(work.parts - 1);
    if (last) *counter = 0;
    is_last = last;
  }
  __syncthreads();
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
  static constexpr int kPitch = Rows + kQuad;
  static constexpr int kElements = kPitch * kBlockK;
  static __device__ __forceinline__ int place(int k, int row) {
    return line_place(k, row, kPitch);
  }
  /// The element of row `first` + `more`, seen from that of row `first` in line 0.
  static __device__ __forceinline__ int from(int first, int k, int more) {
    return line_place(k, more, kPitch);
  }
};

/// Part of one operand's tile that a thread copies, `Width` neighbours at a time.
template <typename T, bool AlongK, int Rows, int Width>
struct Copier {
  static constexpr int kReads = Rows * kBlockK / Width / kThreads;
  static_assert(kReads * Width * kThreads == Rows * kBlockK, "threads share the tile evenly");
  using Read = Some<T, Width>;

  const T* from;  // this thread's first element of the tile that comes next
  i64 ld;
  int row, k;  // of that element in the tile
  int rows;    // of the tile that exist

  __device__ __forceinline__ void start(const T* operand, i64 pitch, i64 first_row, i64 first_k,
                                        i64 all_rows, int thread) {
    ld = pitch;
    row = copied_row(thread, AlongK, Rows, Width, kBlockK);
    k = copied_k(thread, AlongK, Rows, Width, kBlockK);
    rows = int(min(all_rows - first_row, i64(Rows)));
    const i64 r = first_row + row, depth = first_k + k;
    from = operand + (AlongK ? r * ld + depth : depth * ld + r);
  }

  // Accesses of one thread lie constant distances apart.
  static __device__ __forceinline__ constexpr int rows_to(int i) {
    return copied_row(i * kThreads, AlongK, Rows, Width, kBlockK);
  }
  static __device__ __forceinline__ constexpr int k_to(int i) {
    return copied_k(i * kThreads, AlongK, Rows, Width, kBlockK);
  }
  __device__ __forceinline__ const T* at(int i) const {
    return from + (AlongK ? rows_to(i) * ld + k_to(i) : k_to(i) * ld + rows_to(i));
  }
  /// How many elements of access `i` exist, when `depth` lines do.
  __device__ __forceinline__ int valid(int i, int depth) const {
    const int rows_left = rows - row - rows_to(i), k_left = depth - k - k_to(i);
    const int line = AlongK ? rows_left : k_left, along = AlongK ? k_left : rows_left;
    return line > 0 ? max(min(along, Width), 0) : 0;
  }
  __device__ __forceinline__ void next() { from += AlongK ? i64(kBlockK) : kBlockK * ld; }

  /// Sends the next tile on its way into `to`; `depth` of its lines exist.
  template <bool Whole>
  __device__ __forceinline__ void send(u32 to, int depth) const {
    _Pragma("unroll") for (int i = 0; i < kReads; ++i) {
      const u32 place = to + Lines<Rows>::place(k + k_to(i), row + rows_to(i)) * u32(sizeof(Acc));
      const int bytes = (Whole ? Width : valid(i, depth)) * int(sizeof(T));
      if constexpr (sizeof(Read) == 4) cp_async_4(place, at(i), bytes);
      if constexpr (sizeof(Read) == 8) cp_async_8(place, at(i), bytes);
      if constexpr (sizeof(Read) == 16) cp_async_16(place, at(i), bytes);
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
    cp_async_commit();
  }

  template <bool Whole>
  __device__ __forceinline__ void bring(int to, int depth) {
    const u32 place = u32(__cvta_generic_to_shared(stages)) + to * u32(kStage * sizeof(Acc));
    a.template send<Whole>(place, depth);
    b.template send<Whole>(place + u32(kElementsA * sizeof(Acc)), depth);
  }

  /// Stage `at` is whole for every thread when all have come here.
  __device__ __forceinline__ void finish(int at, bool any) {
    cp_async_wait<(kStages > 1 ? kStages - 2 : 0)>();
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
  _Pragma("unroll 1") for (int s = 0; s + 1 < kStages; ++s) feed.begin(s);
  feed.finish(0, work.count > 0);
  int here = 0, free = kStages - 1;  // stages: the one to multiply, the one to fill
  // The factors of the next step are read while those of this one are multiplied.
  Factors factors[2];
  if (work.count > 0) factors[0].read(feed.stages, 0, first_m, first_n);
  for (int pass = work.begin; pass < end; ++pass) {
    const Acc* stage = feed.stages + here * kStage;
    const int next = here + 1 == kStages ? 0 : here + 1;
    const bool more = pass + 1 < end;
    feed.begin(free);
    _Pragma("unroll") for (int k = 0; k + 1 < kBlockK; ++k) {
      factors[(k + 1) % 2].read(stage, k + 1, first_m, first_n);
      multiply_line(sums, factors[k % 2].left, factors[k % 2].right);
    }
    feed.finish(next, more);
    if (more) factors[0].read(feed.stages + next * kStage, 0, first_m, first_n);
    multiply_line(sums, factors[1].left, factors[1].right);
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
  Work work;
  while (scheduler.take(work)) {
    const auto* a = static_cast<const TypeA*>(args.a) + work.batch * args.stride_a;
    const auto* b = static_cast<const TypeB*>(args.b) + work.batch * args.stride_b;
    Acc sums[kThreadM][kThreadN] = {};
    sum_products(sums, args, work, a, b, first_m, first_n, thread);
    if (!combine(sums, work, args.workspace, thread)) continue;
    store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM,
               i64(work.right) * kBlockN, first_m, first_n, thread);
  }
}
