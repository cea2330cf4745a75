// Written by kiln 0.3.0.
// device:  sm_80
// problem: fp32 N N 1024 1024 1024 align=16
// config:  cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=1 width_a=4 width_b=4 copy=registers stages=2 ahead=0 lines=exchanged resident=2 sharing=tiles splits=1 group=8
// compile: nvcc -cubin --gpu-architecture=sm_80 --std=c++17 -o kernel.cubin kiln_cuda_simt_67a3a8ad552f6a92.cu

// ---- cuda/common/abi.h ----
// The contract between a generated GPU kernel and whoever launches it: plain C, no headers, so that
// a generated source stays self-contained (this file is pasted into it).

/// One call, in canonical form: D row-major, A either [m,k] (k-major) or [k,m], B either [n,k]
/// (k-major) or [k,n]; which one is a constant of the kernel. Strides and ld count elements. The
/// first parameter of every kernel, by value; tensor maps follow it in the order of GpuLaunch.
struct KilnGpuArgs {
  const void* a;
  const void* b;
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  void* workspace;       // 256-byte aligned
  long long m, n, k, batch;
  long long lda, ldb, ldc, ldd;
  long long stride_a, stride_b, stride_c, stride_d;
  double alpha, beta;
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};

// ---- cuda/common/types.h ----
// Names of the element types and the mark of device functions. No headers are used anywhere, so
// that a generated source is self-contained.

#define KILN_DEVICE static __device__ __forceinline__
// A kernel takes what it needs of the shared parts; the rest is no mistake.
#pragma nv_diag_suppress 177

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

/// Storage of the small formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
struct Float8E4 {
  u8 bits;
};
struct Float8E5 {
  u8 bits;
};

static __device__ constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

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
constexpr int kResident = 2;      // blocks of a unit at once
constexpr int kWidthA = 4;        // elements of A read at once
constexpr int kWidthB = 4;        // elements of B read at once
constexpr int kStages = 2;        // tiles of A and B in shared memory
constexpr int kStoreWidth = 4;    // elements of D stored at once
constexpr int kGroup = 8;         // rows of tiles in a band of the rasterization
constexpr bool kAlongKA = true;   // A's neighbours run along k
constexpr bool kAlongKB = false;  // B's neighbours run along k

// ---- cuda/common/convert_ptx.h ----
// Conversions of one instruction, on the bits of small floats. Rounding is to nearest even. Of two
// values in a register the first is in the low half. Expects types.h.

KILN_DEVICE float half_to_float(u16 bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}
KILN_DEVICE u16 float_to_half(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
KILN_DEVICE u32 floats_to_halves(float low, float high) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
/// Saturates; NaN becomes 0.
KILN_DEVICE i32 float_to_int(float x) {
  i32 y;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
KILN_DEVICE u16 float_to_bfloat(float x) {
  u16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
KILN_DEVICE u32 floats_to_bfloats(float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// ---- cuda/common/convert.h ----
// Between stored elements and the type that sums are finished in (Real). Rounding is to nearest
// even; integers saturate. Expects convert_ptx.h and the parameters.

KILN_DEVICE float bits_to_float(u32 bits) { return __int_as_float(int(bits)); }
KILN_DEVICE u32 float_to_bits(float x) { return u32(__float_as_int(x)); }

KILN_DEVICE Real to_real(float x, float) { return Real(x); }
KILN_DEVICE Real to_real(double x, double) { return Real(x); }
KILN_DEVICE Real to_real(i8 x, i8) { return Real(x); }
KILN_DEVICE Real to_real(u8 x, u8) { return Real(x); }
KILN_DEVICE Real to_real(i32 x, i32) { return Real(x); }
KILN_DEVICE Real to_real(Bfloat x, Bfloat) { return Real(bits_to_float(u32(x.bits) << 16)); }
KILN_DEVICE Real to_real(Half x, Half) { return Real(half_to_float(x.bits)); }
template <typename T>
KILN_DEVICE Real to_real(T x) {
  return to_real(x, T{});
}

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
KILN_DEVICE i32 from_real(Real x, i32) { return float_to_int(float(x)); }
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) { return Half{float_to_half(float(x))}; }
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  return Bfloat{float_to_bfloat(float(x))};
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  return floats_to_halves(float(low), float(high));
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  return floats_to_bfloats(float(low), float(high));
}

// ---- cuda/common/epilogue.h ----
// What happens to a sum: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  // Nothing reads these two: stored kernels, which are known by their tokens, have them.
  const TypeD* residual;
  const Real* bias;
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
};

KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.residual = static_cast<const TypeD*>(args.residual) + batch * args.stride_d;
  out.bias = static_cast<const Real*>(args.bias);
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  return out;
}

KILN_DEVICE Real finish(const Output& out, Real x, i64 row, i64 column) { return x; }

// ---- cuda/common/swizzle.h ----
// Where things lie in shared memory so that a warp's accesses meet different banks. Plain functions
// of numbers: a test on the host counts the conflicts of these very lines.

/// The byte of 16-byte unit `unit` of row `row`, rows being `pitch` bytes (16, 32, 64 or 128): the
/// copy engine's swizzle of that width.
KILN_DEVICE constexpr unsigned swizzled_byte(int row, int unit, int pitch) {
  const int shift = pitch == 128 ? 0 : pitch == 64 ? 1 : 2;
  return unsigned(row * pitch + ((unit ^ ((row >> shift) & (pitch / 16 - 1))) << 4));
}

/// The element of row `row` in line `k` of a tile of `rows` rows and `block_k` lines: quads (of
/// `quad` elements, 16 bytes) are exchanged by k. A warp that writes quads of k covers
/// 128 / block_k rows at once, hence the step.
KILN_DEVICE constexpr int quad_place(int k, int row, int rows, int quad, int block_k) {
  const int mask = rows / quad >= 8 ? 7 : rows / quad - 1;
  const int apart = block_k >= 32 ? 1 : 32 / block_k;
  return k * rows + (row / quad ^ (k / 4 * apart & mask)) * quad + row % quad;
}

// ---- cuda/common/cp_async_ptx.h ----
// Copies from memory straight into shared memory, without registers (sm_80 and up). A copy brings
// `valid` bytes and fills the rest with zeros; with none it reads nothing. Expects types.h.

KILN_DEVICE void cp_async_4(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_8(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
/// Past L1.
KILN_DEVICE void cp_async_16(u32 to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
/// Ends a group of copies: everything since the one before.
KILN_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Pending` groups of this thread are on their way.
template <int Pending>
KILN_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// ---- cuda/simt/lanes.h ----
// Which part of a warp's tile a lane takes, and which elements of a tile a thread copies. Plain
// functions of numbers: a test on the host counts what these very lines cost.

/// Lanes of a warp stand in a rectangle of `lanes_m` by 32 / lanes_m. Rows and columns take the
/// bits of a lane's number by turns, columns first: then pairs of lanes read the same of either
/// operand, which halves the accesses that 16 bytes a lane cost.
KILN_DEVICE constexpr int lane_part(int lane, int lanes_m, bool rows) {
  int m = 0, n = 0, bits_m = 1, bits_n = 1;
  for (int bit = 0; bit < 5; ++bit) {
    const bool to_m = bits_n * lanes_m == 32 || (bit % 2 == 1 && bits_m < lanes_m);
    const int set = lane >> bit & 1;
    if (to_m) {
      m += set * bits_m;
      bits_m *= 2;
    } else {
      n += set * bits_n;
      bits_n *= 2;
    }
  }
  return rows ? m : n;
}

/// The element of row `row` in line `k` of a tile whose lines are `pitch` elements apart.
KILN_DEVICE constexpr int line_place(int k, int row, int pitch) { return k * pitch + row; }

/// Where access number `q` to a tile of `rows` rows begins, `width` elements each. Along k, one row
/// is read 8 elements (a sector of 32 bytes) at a time, so that lanes spread over many rows.
KILN_DEVICE constexpr int copied_row(int q, bool along_k, int rows, int width, int block_k) {
  const int piece = block_k < 8 ? block_k : 8;
  return along_k ? q / (piece / width) % rows : q % (rows / width) * width;
}
KILN_DEVICE constexpr int copied_k(int q, bool along_k, int rows, int width, int block_k) {
  const int piece = block_k < 8 ? block_k : 8;
  return along_k ? q % (piece / width) * width + q / (piece / width * rows) * piece
                 : q / (rows / width);
}

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
};

struct TileScheduler {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;  // of the block in its cluster

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
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.count = stages;
    next += clusters;
    place(work, tile);
    return true;
  }
};

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
    store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM,
               i64(work.right) * kBlockN, first_m, first_n, thread);
  }
}
