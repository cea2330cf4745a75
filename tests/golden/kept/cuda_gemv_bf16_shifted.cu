// Written by kiln 0.1.0.
// device:  sm_90a
// problem: bf16 N T 3 5000 777
// config:  cuda_gemv rows=4 width=0 warps=4 swap=0
// compile: nvcc -cubin --gpu-architecture=sm_90a --std=c++17 -o kernel.cubin kiln_cuda_gemv_8e647581f42a77c4.cu

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
using TypeA = Bfloat;               // elements of A
using TypeB = Bfloat;               // elements of B
using TypeD = Bfloat;               // elements of C and D
using Acc = float;                  // sums
using Real = float;                 // what sums are finished in
constexpr int kThin = 3;            // rows of the thin operand
constexpr int kRows = 4;            // rows of the wide operand that a warp takes
constexpr int kAhead = 4;           // words of each row on their way to a lane
constexpr int kPanel = 640;         // words of each thin row in shared memory at once
constexpr int kWarps = 4;           // of a block
constexpr bool kSwap = false;       // thin is B
constexpr bool kThinAlongK = true;  // the thin operand's neighbours run along k
#define KILN_THIN TypeA
#define KILN_WIDE TypeB

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
  Bfloat y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(float(x)));
  return y;
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(float(high)), "f"(float(low)));
  return y;
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(float(high)), "f"(float(low)));
  return y;
}

// ---- cuda/epilogue.h ----
// What happens to a sum: alpha, beta·C, bias, activation, residual, in that order, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

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
  return x;
}

// ---- cuda/gemv.cu ----
// A thin operand (at most 16 rows) times a wide one whose rows run along k: each warp takes kRows
// wide rows, its lanes walk along k together, and their sums meet at the end. Bound by memory, and
// content with any address. "Thin" is A, or B when kSwap. Expects convert.h, epilogue.h.

using TypeThin = KILN_THIN;
using TypeWide = KILN_WIDE;

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
KILN_DEVICE Acc widened(i8 x) { return Acc(x); }
KILN_DEVICE Acc widened(u8 x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

KILN_DEVICE void store_one(const Output& out, Acc sum, i64 row, i64 column) {
  TypeD* d = out.d + row * out.ldd + column;
  Real x = Real(sum) * out.alpha;
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  *d = from_real(x, TypeD{});
}

// ---- cuda/gemv_words.h ----
// Wide rows at any address, read by the aligned 16-byte words that lie in them whole. Rows as far
// apart as a word has elements begin at the same place within a word, whatever their distance: a
// block takes rows of one such class. Expects gemv.cu.

constexpr int kEach = 16 / sizeof(TypeWide);  // elements of a word
static_assert(sizeof(TypeThin) == sizeof(TypeWide), "a word of either holds as many elements");

template <typename T>
struct alignas(16) Word {
  T x[kEach];
};

struct Thin {
  const TypeThin* from;
  i64 ld;
  __device__ __forceinline__ TypeThin at(int t, i64 k) const {
    return from[kThinAlongK ? t * ld + k : k * ld + t];
  }
};

/// Waits until the grid that this one was launched behind has finished and its memory is visible.
KILN_DEVICE void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the grid behind this one start before this one ends.
KILN_DEVICE void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- cuda/gemv_shifted.cu ----
// A warp reads the words of its rows, and what stands before and behind them one element a lane. The
// thin operand lies in shared memory so that its words hold the same k as theirs. Expects
// gemv_words.h.

static_assert(kPanel % (32 * kAhead) == 0, "a panel is a whole number of turns");

/// Lays out `words` words of every thin row, the first of which begins at `k0`. Several words of a
/// lane are on their way together; lanes that have none left repeat the last.
KILN_DEVICE void lay_out(uint4 (&panel)[kThin][kPanel], const Thin& thin, i64 k0, int words) {
  constexpr int kTogether = kEach < 16 ? 4 : 2;
  const int lane = int(threadIdx.x) & 31, parts = int(ceil_div(words, 32)) * kThin;
  for (int i = int(threadIdx.x) / 32; i < parts; i += kWarps * kTogether) {
    Word<TypeThin> some[kTogether];
    int t[kTogether], place[kTogether];
    _Pragma("unroll") for (int j = 0; j < kTogether; ++j) {
      const int part = min(i + j * kWarps, parts - 1);
      t[j] = part % kThin;
      place[j] = min(part / kThin * 32 + lane, words - 1);
      _Pragma("unroll") for (int e = 0; e < kEach; ++e) some[j].x[e] =
          thin.at(t[j], k0 + place[j] * kEach + e);
    }
    _Pragma("unroll") for (int j = 0; j < kTogether; ++j) panel[t[j]][place[j]] =
        reinterpret_cast<const uint4&>(some[j]);
  }
}

/// Element `e` of a word. Short ones are cut from 32 bits, which saves an instruction of each.
template <typename T>
KILN_DEVICE Acc element(const uint4& word, int e) {
  if constexpr (sizeof(T) < 4) {
    const u32 all[4] = {word.x, word.y, word.z, word.w};
    const u32 bits = all[e * sizeof(T) / 4] >> e * sizeof(T) % 4 * 8;
    const u16 two = u16(bits);
    const u8 one = u8(bits);
    if constexpr (sizeof(T) == 2) return widened(reinterpret_cast<const T&>(two));
    return widened(reinterpret_cast<const T&>(one));
  } else {
    return widened(reinterpret_cast<const Word<T>&>(word).x[e]);
  }
}

KILN_DEVICE void multiply(Acc (&sums)[kRows][kThin], const uint4 (&words)[kRows],
                          const uint4 (&panel)[kThin][kPanel], int place) {
  Acc right[kRows][kEach];
  _Pragma("unroll") for (int r = 0; r < kRows; ++r)
    _Pragma("unroll") for (int e = 0; e < kEach; ++e) right[r][e] = element<TypeWide>(words[r], e);
  _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
    const uint4 word = panel[t][place];
    _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
      const Acc left = element<TypeThin>(word, e);
      _Pragma("unroll") for (int r = 0; r < kRows; ++r) sums[r][t] += left * right[r][e];
    }
  }
}

static __device__ constexpr int next_power_of_two(int x) {
  int power = 1;
  while (power < x) power *= 2;
  return power;
}
constexpr int kSums = kRows * kThin;
constexpr int kHeap = next_power_of_two(kSums);

/// Adds up the first `Count` over the warp: lanes that differ in a bit share them out, half each,
/// until a lane has one left, or one for every 32. Returns which it begins with.
template <int Count, int Step>
KILN_DEVICE int add_up(Acc (&heap)[kHeap]) {
  if constexpr (Step == 0) {
    return 0;
  } else if constexpr (Count == 1) {
    heap[0] += __shfl_xor_sync(0xffffffff, heap[0], Step);
    return add_up<1, Step / 2>(heap);
  } else {
    constexpr int kHalf = Count / 2;
    const bool upper = (int(threadIdx.x) & Step) != 0;
    _Pragma("unroll") for (int i = 0; i < kHalf; ++i) {
      const Acc theirs = upper ? heap[i] : heap[i + kHalf];
      const Acc mine = upper ? heap[i + kHalf] : heap[i];
      heap[i] = mine + __shfl_xor_sync(0xffffffff, theirs, Step);
    }
    return (upper ? kHalf : 0) + add_up<kHalf, Step / 2>(heap);
  }
}

extern "C" __global__ void __launch_bounds__(kWarps * 32)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  __shared__ uint4 panel[kThin][kPanel];
  const int lane = int(threadIdx.x) & 31;
  const i64 wide_rows = kSwap ? args.m : args.n;
  const u32 blocks = gridDim.x / u32(args.batch), batch = blockIdx.x / blocks;
  const u32 block = blockIdx.x - batch * blocks;
  const i64 row0 =
      block % kEach + (i64(block / kEach) * kWarps + threadIdx.x / 32) * (kRows * kEach);
  const i64 wide_ld = kSwap ? args.lda : args.ldb;
  const auto* wide = static_cast<const TypeWide*>(kSwap ? args.a : args.b) +
                     batch * (kSwap ? args.stride_a : args.stride_b) + row0 * wide_ld;
  const Thin thin{static_cast<const TypeThin*>(kSwap ? args.b : args.a) +
                      batch * (kSwap ? args.stride_b : args.stride_a),
                  kSwap ? args.ldb : args.lda};

  // The same for all rows of the block: elements before the first whole word, words, elements left.
  const int begin = int(reinterpret_cast<u64>(wide) & 15) / int(sizeof(TypeWide));
  const int head = int(min(i64((kEach - begin) % kEach), args.k));
  const int words = int((args.k - head) / kEach);
  const int tail = int(args.k - head - i64(words) * kEach);
  // Rows that are not there are read as copies of the warp's first; nothing, if that one is not.
  const TypeWide* rows[kRows];
  _Pragma("unroll") for (int r = 0; r < kRows; ++r) rows[r] =
      wide + (row0 + r * kEach < wide_rows ? r * kEach * wide_ld : 0);
  const int end = row0 < wide_rows ? words : 0;
  const auto read = [&](int r, int at) {
    return at < end ? reinterpret_cast<const uint4*>(rows[r] + head)[at] : uint4{};
  };
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  uint4 ahead[kAhead][kRows];
  _Pragma("unroll") for (int a = 0; a < kAhead; ++a)
    _Pragma("unroll") for (int r = 0; r < kRows; ++r) ahead[a][r] = read(r, a * 32 + lane);
  TypeWide wide_ends[kRows] = {};
  TypeThin thin_ends[kThin] = {};
  if (lane < head + tail && row0 < wide_rows) {
    const i64 k = lane < head ? i64(lane) : lane + i64(words) * kEach;
    _Pragma("unroll") for (int r = 0; r < kRows; ++r) wide_ends[r] = rows[r][k];
    _Pragma("unroll") for (int t = 0; t < kThin; ++t) thin_ends[t] = thin.at(t, k);
  }
  lay_out(panel, thin, head, min(words, kPanel));
  Acc sums[kRows][kThin];
  _Pragma("unroll") for (int r = 0; r < kRows; ++r)
    _Pragma("unroll") for (int t = 0; t < kThin; ++t) sums[r][t] =
        widened(wide_ends[r]) * widened(thin_ends[t]);
  __syncthreads();
  for (int word0 = 0;;) {
    const int here = min(words - word0, kPanel);
    for (int i = lane; i < here + lane; i += 32 * kAhead) {
      _Pragma("unroll") for (int a = 0; a < kAhead; ++a)
        if (word0 + i + a * 32 < end) multiply(sums, ahead[a], panel, i + a * 32);
      // Fetched when all before are used: the hardware waits for the youngest load with the oldest.
      const int next = word0 + i + 32 * kAhead;
      if (next - lane < end)
        _Pragma("unroll") for (int a = 0; a < kAhead; ++a)
          _Pragma("unroll") for (int r = 0; r < kRows; ++r) ahead[a][r] = read(r, next + a * 32);
    }
    word0 += kPanel;
    if (word0 >= words) break;
    __syncthreads();
    lay_out(panel, thin, head + i64(word0) * kEach, min(words - word0, kPanel));
    __syncthreads();
  }

  Acc heap[kHeap] = {};
  _Pragma("unroll") for (int i = 0; i < kSums; ++i) heap[i] = sums[i / kThin][i % kThin];
  const int first = add_up<kHeap, 16>(heap);
  // Of lanes that have the same sums, the first stores.
  if (kHeap < 32 && lane % (32 / kHeap) != 0) return;
  const Output out = output_of(args, batch);
  _Pragma("unroll") for (int i = 0; i < (kHeap + 31) / 32; ++i) {
    const int t = (first + i) % kThin, r = (first + i) / kThin;
    const i64 row = row0 + r * kEach;
    if (r < kRows && row < wide_rows)
      store_one(out, heap[i], kSwap ? row : t, kSwap ? t : row);
  }
}
