// Written by kiln 0.3.0.
// device:  sm_90a
// problem: bf16 N T 3 5000 777 epilogue=bias_row+silu
// config:  cuda_gemv rows=2 width=1 warps=4 swap=0
// compile: nvcc -cubin --gpu-architecture=sm_90a --std=c++17 -o kernel.cubin kiln_cuda_gemv_7af203480d90a026.cu

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
using TypeA = Bfloat;               // elements of A
using TypeB = Bfloat;               // elements of B
using TypeD = Bfloat;               // elements of C and D
using Acc = float;                  // accumulators
using Real = float;                 // what the epilogue computes in
constexpr int kThin = 3;            // rows of the thin operand
constexpr int kRows = 2;            // rows of the wide operand that a warp takes
constexpr int kWidth = 1;           // elements read at once
constexpr int kWarps = 4;           // of a block
constexpr bool kSwap = false;       // thin is B
constexpr bool kThinAlongK = true;  // the thin operand's neighbours run along k
#define KILN_THIN TypeA
#define KILN_WIDE TypeB

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
/// 1 / x to one unit in the last place; 0 where that would be denormal.
KILN_DEVICE float near_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 2^x to two units in the last place; 0 where that would be denormal.
KILN_DEVICE float near_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// The bits of an element where it is there, else 0. Volatile: loads stay in their order and so
// beside each other, where the compiler would move each to what needs it and wait there.
KILN_DEVICE u16 load_if(const u16* from, bool there) {
  u16 x;
  asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; mov.b16 %0, 0; @p ld.global.nc.b16 %0, [%1];}"
               : "=h"(x)
               : "l"(from), "r"(int(there)));
  return x;
}
KILN_DEVICE u32 load_if(const u32* from, bool there) {
  u32 x;
  asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @p ld.global.nc.b32 %0, [%1];}"
               : "=r"(x)
               : "l"(from), "r"(int(there)));
  return x;
}
KILN_DEVICE u64 load_if(const u64* from, bool there) {
  u64 x;
  asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; mov.b64 %0, 0; @p ld.global.nc.b64 %0, [%1];}"
               : "=l"(x)
               : "l"(from), "r"(int(there)));
  return x;
}
KILN_DEVICE u32 load_at(const u32* from) {
  u32 x;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(x) : "l"(from));
  return x;
}
KILN_DEVICE u64 load_at(const u64* from) {
  u64 x;
  asm volatile("ld.global.nc.b64 %0, [%1];" : "=l"(x) : "l"(from));
  return x;
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

/// x / y for y from 1 on, to two units in the last place; 0 beyond 2^126. Without the branch of an
/// exact division the elements of a lane are computed beside each other.
KILN_DEVICE float quotient(float x, float y) { return __fmul_rn(x, near_reciprocal(y)); }
KILN_DEVICE double quotient(double x, double y) { return x / y; }

/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }

/// 1 / (1 + 2^-x) to some roundoffs of 1: what x lost in the exponent is small beside 1 where it
/// is large.
KILN_DEVICE float logistic(float x) { return near_reciprocal(1.0f + near_exp2(-x)); }
KILN_DEVICE double logistic(double x) { return 1.0 / (1.0 + exp(x * -0.6931471805599453)); }
KILN_DEVICE Real silu(Real x) { return product(x, logistic(x * Real(1.4426950408889634))); }

/// x · y + z, rounded once.
KILN_DEVICE Real fused(Real x, Real y, Real z) { return fma(x, y, z); }

/// An element of a matrix where it is there, else 0.
KILN_DEVICE Real real_if(const float* from, bool there) {
  return Real(bits_to_float(load_if(reinterpret_cast<const u32*>(from), there)));
}
KILN_DEVICE Real real_if(const double* from, bool there) {
  const u64 bits = load_if(reinterpret_cast<const u64*>(from), there);
  return Real(__longlong_as_double(static_cast<long long>(bits)));
}
KILN_DEVICE Real real_if(const Half* from, bool there) {
  return to_real(Half{load_if(reinterpret_cast<const u16*>(from), there)});
}
/// Of the other types of D.
template <typename T>
KILN_DEVICE Real real_if(const T* from, bool there) {
  return there ? to_real(*from) : Real(0);
}
KILN_DEVICE Real real_if(const Bfloat* from, bool there) {
  return to_real(Bfloat{load_if(reinterpret_cast<const u16*>(from), there)});
}

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
  const float* x0;
};

KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  out.x0 = static_cast<const float*>(args.bias);
  return out;
}

/// What the expression reads for one element; those outside D read nothing.
struct Extras {
  Real x0;
};
KILN_DEVICE Extras extras_at(const Output& out, i64 row, i64 column) {
  using Value = Real;
  const bool in_row = row < out.rows, in_column = column < out.columns;
  Extras x;
  x.x0 = in_row ? to_real(out.x0[row]) : Value(0);
  return x;
}
/// The expression's value for one element; what else is stored is left in `x`.
KILN_DEVICE Real finish(const Output& out, Real v, i64 row, i64 column, Extras& x) {
  using Value = Real;
  const Value acc = v;
  v = silu(acc + x.x0);
  return v;
}
KILN_DEVICE Real finish(const Output& out, Real v, i64 row, i64 column) {
  Extras x = extras_at(out, row, column);
  v = finish(out, v, row, column, x);
  return v;
}

// ---- cuda/gemv/read.h ----
// Elements of the thin and of the wide operand on their way to sums, and the sum of a warp. Expects
// convert.h.

using TypeThin = KILN_THIN;
using TypeWide = KILN_WIDE;

/// Rows of the thin operand, kThin at most.
KILN_DEVICE constexpr int thin_rows(const KilnGpuArgs&) { return kThin; }

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
KILN_DEVICE Acc widened(i8 x) { return Acc(x); }
KILN_DEVICE Acc widened(u8 x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

template <typename T>
struct alignas(kWidth * sizeof(T)) Some {
  T x[kWidth];
};

/// kWidth neighbours along k of one row, zero behind its end. `at` points to the first of them.
template <typename T, bool AlongK>
KILN_DEVICE void load_some(Acc (&to)[kWidth], const T* at, i64 ld, i64 left) {
  if constexpr (AlongK) {
    if (left >= kWidth) {
      const auto some = *reinterpret_cast<const Some<T>*>(at);
      _Pragma("unroll") for (int e = 0; e < kWidth; ++e) to[e] = widened(some.x[e]);
      return;
    }
  }
  _Pragma("unroll") for (int e = 0; e < kWidth; ++e)
    to[e] = e < left ? widened(at[AlongK ? e : e * ld]) : Acc(0);
}

KILN_DEVICE Acc sum_of_warp(Acc x) {
  _Pragma("unroll") for (int step = 16; step > 0; step /= 2)
    x += __shfl_xor_sync(0xffffffff, x, step);
  return x;
}

// ---- cuda/gemv/store.h ----
// A sum becomes an element of D. Expects convert.h, epilogue.h.

KILN_DEVICE void store_one(const Output& out, Acc sum, i64 row, i64 column) {
  TypeD* d = out.d + row * out.ldd + column;
  Real x = product(Real(sum), out.alpha);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  *d = from_real(x, TypeD{});
}

// ---- cuda/gemv/gemv.cu ----
// A thin operand (kThin rows at most) times a wide one whose rows run along k: each warp takes
// kRows wide rows, its lanes walk along k together, and their sums meet at the end. Bound by
// memory, and content with any address. "Thin" is A, or B when kSwap. Expects read.h, store.h.

extern "C" __global__ void __launch_bounds__(kWarps * 32)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  const int lane = int(threadIdx.x) & 31;
  const i64 wide_rows = kSwap ? args.m : args.n, blocks = ceil_div(wide_rows, kWarps * kRows);
  const i64 batch = i64(blockIdx.x) / blocks;
  const i64 row0 = ((i64(blockIdx.x) - batch * blocks) * kWarps + threadIdx.x / 32) * kRows;
  const void* thin_bytes = kSwap ? args.b : args.a;
  const void* wide_bytes = kSwap ? args.a : args.b;
  const i64 thin_ld = kSwap ? args.ldb : args.lda, wide_ld = kSwap ? args.lda : args.ldb;
  const auto* thin =
      static_cast<const TypeThin*>(thin_bytes) + batch * (kSwap ? args.stride_b : args.stride_a);
  const auto* wide = static_cast<const TypeWide*>(wide_bytes) +
                     batch * (kSwap ? args.stride_a : args.stride_b) + row0 * wide_ld;
  const int rows = thin_rows(args);
  Acc sums[kRows][kThin] = {};
  for (i64 k = lane * kWidth; k < args.k; k += 32 * kWidth) {
    const i64 left = args.k - k;
    Acc right[kRows][kWidth];
    _Pragma("unroll") for (int r = 0; r < kRows; ++r)
      load_some<TypeWide, true>(right[r], wide + r * wide_ld + k, 1,
                                row0 + r < wide_rows ? left : 0);
    _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
      Acc here[kWidth];
      load_some<TypeThin, kThinAlongK>(
          here, kThinAlongK ? thin + t * thin_ld + k : thin + k * thin_ld + t, thin_ld,
          t < rows ? left : 0);
      _Pragma("unroll") for (int r = 0; r < kRows; ++r)
        _Pragma("unroll") for (int e = 0; e < kWidth; ++e) sums[r][t] += here[e] * right[r][e];
    }
  }
  const Output out = output_of(args, batch);
  _Pragma("unroll") for (int r = 0; r < kRows; ++r)
    _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
      const Acc sum = sum_of_warp(sums[r][t]);
      if (lane == (r * kThin + t) % 32 && t < rows && row0 + r < wide_rows)
        store_one(out, sum, kSwap ? row0 + r : t, kSwap ? t : row0 + r);
    }
}
