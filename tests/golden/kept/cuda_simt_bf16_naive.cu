// Written by kiln 0.1.0.
// device:  sm_75
// problem: bf16 N T 100 100 100 epilogue=bias_row+silu
// config:  cuda_simt block_m=8 block_n=32 block_k=1 thread_m=1 thread_n=1 lanes_m=1 spread=1 width_a=1 width_b=1 copy=registers stages=0 ahead=0 lines=plain resident=1 sharing=tiles splits=1 group=8
// compile: nvcc -cubin --gpu-architecture=sm_75 --std=c++17 -o kernel.cubin kiln_cuda_simt_7ad468c5601b186a.cu

// ---- cuda/abi.h ----
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

// ---- cuda/types.h ----
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
using TypeA = Bfloat;            // elements of A
using TypeB = Bfloat;            // elements of B
using TypeD = Bfloat;            // elements of C and D
using Acc = float;               // sums
using Real = float;              // what sums are finished in
constexpr int kBlockM = 8;       // rows of D in a block's tile
constexpr int kBlockN = 32;      // columns of D in it
constexpr int kBlockK = 1;       // k of one pass
constexpr int kThreadM = 1;      // rows of a thread's sums
constexpr int kThreadN = 1;      // columns of them
constexpr int kLanesM = 1;       // lanes of a warp along the rows
constexpr bool kSpread = true;   // other lanes' rows and columns lie between a thread's quads
constexpr int kThreads = 256;    // of a block
constexpr int kResident = 1;     // blocks of a unit at once
constexpr int kStoreWidth = 1;   // elements of D stored at once
constexpr int kGroup = 8;        // rows of tiles walked together
constexpr bool kAlongKA = true;  // A's neighbours run along k
constexpr bool kAlongKB = true;  // B's neighbours run along k

// ---- cuda/convert.h ----
// Between stored elements and the type that sums are finished in (Real). Rounding is to nearest
// even; integers saturate. Expects types.h and the parameters.

KILN_DEVICE float bits_to_float(u32 bits) { return __int_as_float(int(bits)); }
KILN_DEVICE u32 float_to_bits(float x) { return u32(__float_as_int(x)); }

KILN_DEVICE Real to_real(float x, float) { return Real(x); }
KILN_DEVICE Real to_real(double x, double) { return Real(x); }
KILN_DEVICE Real to_real(i8 x, i8) { return Real(x); }
KILN_DEVICE Real to_real(u8 x, u8) { return Real(x); }
KILN_DEVICE Real to_real(i32 x, i32) { return Real(x); }
KILN_DEVICE Real to_real(Bfloat x, Bfloat) { return Real(bits_to_float(u32(x.bits) << 16)); }
KILN_DEVICE Real to_real(Half x, Half) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return Real(y);
}
template <typename T>
KILN_DEVICE Real to_real(T x) {
  return to_real(x, T{});
}

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
KILN_DEVICE i32 from_real(Real x, i32) {
  i32 y;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(float(x)));
  return y;
}
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) {
  Half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(float(x)));
  return y;
}
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  const u32 bits = float_to_bits(float(x));
  if ((bits & 0x7fffffff) > 0x7f800000) return Bfloat{0x7fff};
  return Bfloat{u16((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(float(high)), "f"(float(low)));
  return y;
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  return u32(from_real(low, Bfloat{}).bits) | u32(from_real(high, Bfloat{}).bits) << 16;
}

// ---- cuda/epilogue.h ----
// What happens to a sum: alpha, beta·C, bias, activation, residual, in that order, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

KILN_DEVICE Real activate(Real x) { return x / (Real(1) + Real(exp(-x))); }

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
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

/// Bias and activation of one element; those outside D read nothing.
KILN_DEVICE Real finish(const Output& out, Real x, i64 row, i64 column) {
  if (row < out.rows) x += out.bias[row];
  x = activate(x);
  return x;
}

// ---- cuda/swizzle.h ----
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

// ---- cuda/cp_async.h ----
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

// ---- cuda/simt_lanes.h ----
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

// ---- cuda/simt_work.h ----
// Which tile and which part of k a block works on, and the sum of parts. A tile whose k was cut is
// finished by whichever of its blocks comes last, which adds all parts in the order of k: the same
// call gives the same bits. Expects types.h, and from the parameters the tile.

struct Work {
  i64 batch;
  int m, n;         // of the tile
  int begin, end;   // of k, in passes of kBlockK
};

struct Shares {
  int tiles_m, tiles_n;
  int passes;  // of kBlockK
  int tiles, next;

  static __device__ __forceinline__ Shares of(const KilnGpuArgs& args) {
    Shares s;
    s.tiles_m = int(ceil_div(args.m, kBlockM));
    s.tiles_n = int(ceil_div(args.n, kBlockN));
    s.passes = int(ceil_div(args.k, kBlockK));
    s.tiles = s.tiles_m * s.tiles_n * int(args.batch);
    s.next = int(blockIdx.x);
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
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.end = passes;
    next += int(gridDim.x);
    place(work, tile);
    return true;
  }
};

// ---- cuda/simt_copy.h ----
// Tiles of A and B on their way from memory to shared memory, where line k holds all rows of that
// k side by side. Expects types.h, convert.h, swizzle.h, cp_async.h, simt_lanes.h, and from the
// parameters the tile.

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
KILN_DEVICE Acc widened(i8 x) { return Acc(x); }
KILN_DEVICE Acc widened(u8 x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

// ---- cuda/simt.cu ----
// Ordinary multiply-adds, for every type and every layout. Each thread keeps kThreadM × kThreadN
// sums; tiles of A and B pass through shared memory, or are read where they lie. Expects abi.h,
// types.h, convert.h, epilogue.h, simt_lanes.h, simt_work.h, and simt_copy.h when tiles are copied.

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

/// No shared memory: every thread reads what it multiplies.
KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], const KilnGpuArgs& args,
                              const Work& work, const TypeA* a, const TypeB* b, int first_m,
                              int first_n, int) {
  const i64 end = min(i64(work.end) * kBlockK, args.k);
  const i64 row = i64(work.m) * kBlockM + first_m, column = i64(work.n) * kBlockN + first_n;
  for (i64 k = i64(work.begin) * kBlockK; k < end; ++k) {
    Acc left[kThreadM], right[kThreadN];
    _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
      const i64 r = row + apart(i, kThreadM, kLanesM);
      left[i] = r < args.m ? widened(a[kAlongKA ? r * args.lda + k : k * args.lda + r]) : Acc(0);
    }
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) {
      const i64 c = column + apart(j, kThreadN, kLanesN);
      right[j] = c < args.n ? widened(b[kAlongKB ? c * args.ldb + k : k * args.ldb + c]) : Acc(0);
    }
    multiply_line(sums, left, right);
  }
}

KILN_DEVICE TypeD finished(const Output& out, Acc sum, i64 row, i64 column) {
  Real x = Real(sum) * out.alpha;
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

extern "C" __global__ void __launch_bounds__(kThreads, kResident)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  const int thread = int(threadIdx.x), warp = thread / 32, lane = thread & 31;
  const int first_m = warp % kWarpsM * kLanesM * kThreadM + lane_part(lane, kLanesM, true) * kRunM;
  const int first_n = warp / kWarpsM * kLanesN * kThreadN + lane_part(lane, kLanesM, false) * kRunN;
  Shares shares = Shares::of(args);
  Work work;
  while (shares.take(work)) {
    const auto* a = static_cast<const TypeA*>(args.a) + work.batch * args.stride_a;
    const auto* b = static_cast<const TypeB*>(args.b) + work.batch * args.stride_b;
    Acc sums[kThreadM][kThreadN] = {};
    sum_products(sums, args, work, a, b, first_m, first_n, thread);
    store_sums(sums, output_of(args, work.batch), i64(work.m) * kBlockM, i64(work.n) * kBlockN,
               first_m, first_n, thread);
  }
}
