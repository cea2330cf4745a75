// device:  gfx950
// problem: e4m3e5m2 T N 100 90 333 epilogue=bias_col+gelu_erf+residual
// config:  hip_mfma rows=32 k=64 tile_m=64 tile_n=64 depth=64 waves_m=2 waves_n=2 staging=single banks=padded splits=1 chunk=0 group=4 priority=0 fence=0 pace=free turn=0

// ---- parameters ----
using TypeA = Float8<3, false>;      // elements of A
using TypeB = Float8<2, false>;      // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = float;                   // accumulators
using Real = float;                  // what the epilogue computes in
using FragmentA = Vector<i32, 8>;    // a lane's part of the instruction's first operand: of B
using FragmentB = Vector<i32, 8>;    // and of its second one: of A
constexpr int kTileM = 64;           // rows of D in a block's tile
constexpr int kTileN = 64;           // columns of it
constexpr int kTileK = 64;           // k of one stage
constexpr int kElement = 1;          // bytes of an element of A and B
constexpr int kDepthBytes = 64;      // of a row in one stage
constexpr int kRowBytes = 80;        // from row to row in shared memory
constexpr int kWavesM = 2;           // waves along m
constexpr int kWavesN = 2;           // waves along n
constexpr int kThreads = 256;        // of a block
constexpr int kWavesPerUnit = 1;     // waves of a block that share a SIMD
constexpr int kRows = 32;            // rows and columns of one instruction
constexpr int kSums = 16;            // accumulators of a lane, for one instruction
constexpr int kStages = 1;           // in shared memory
constexpr int kSharedBytes = 10240;  // of all stages
constexpr int kWidthA = 1;           // bytes of a load of A
constexpr int kWidthB = 1;           // bytes of a load of B
constexpr int kGroup = 4;            // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;           // parts that k is divided into
constexpr bool kAlongA = false;      // A's rows lie along k
constexpr bool kAlongB = false;      // B's rows lie along k
constexpr int kFormatA = 1;          // of the first operand
constexpr int kFormatB = 0;          // of the second
#define KILN_MFMA mfma_32x32x64_fp8_e4m3
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4

// ---- hip/common/convert.h ----
// Between stored elements and the epilogue's type (Real). Rounding is to nearest even; integers
// saturate. Expects types.h and the parameters.

KILN_DEVICE Real to_real(float x) { return Real(x); }
KILN_DEVICE Real to_real(double x) { return Real(x); }
KILN_DEVICE Real to_real(i8 x) { return Real(x); }
KILN_DEVICE Real to_real(u8 x) { return Real(x); }
KILN_DEVICE Real to_real(i32 x) { return Real(x); }
KILN_DEVICE Real to_real(Half x) { return Real(bits_as<_Float16>(x.bits)); }
KILN_DEVICE Real to_real(Bfloat x) { return Real(bits_as<float>(u32(x.bits) << 16)); }
template <int Mantissa, bool Fnuz>
KILN_DEVICE Real to_real(Float8<Mantissa, Fnuz> x) {
  constexpr int kBias = (1 << (6 - Mantissa)) - (Fnuz ? 0 : 1);
  constexpr float kLeast =
      Mantissa == 3 ? (Fnuz ? 0x1p-10f : 0x1p-9f) : (Fnuz ? 0x1p-17f : 0x1p-16f);
  const u32 magnitude = x.bits & 0x7f, sign = u32(x.bits & 0x80) << 24;
  const u32 exponent = magnitude >> Mantissa;
  u32 bits = magnitude << (23 - Mantissa);
  bits = exponent ? bits + (u32(127 - kBias) << 23) : bits_as<u32>(float(magnitude) * kLeast);
  if (Fnuz ? x.bits == 0x80 : Mantissa == 3 ? magnitude == 0x7f : magnitude > 0x7c)
    bits = 0x7fc00000;
  if (!Fnuz && Mantissa == 2 && magnitude == 0x7c) bits = 0x7f800000;
  return Real(bits_as<float>(bits | sign));
}

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
/// NaN becomes 0, as the instruction has it.
KILN_DEVICE i32 from_real(Real x, i32) {
  const float y = __builtin_rintf(float(x));
  return y >= 0x1p31f ? 0x7fffffff : y <= -0x1p31f ? i32(0x80000000u) : y == y ? i32(y) : 0;
}
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) { return Half{bits_as<u16>(_Float16(float(x)))}; }
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  return Bfloat{bits_as<u16>(__bf16(float(x)))};
}

// ---- hip/common/epilogue.h ----
// What happens to an accumulator: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// e^x = 2^(x / ln 2). What the product's rounding loses would be multiplied by x: it is put back.
KILN_DEVICE float exponential(float x) {
  if (x < -104.0f) return 0.0f;
  if (x > 89.0f) return __builtin_inff();
  const float high = x * 1.44269502f;
  const float low = __builtin_fmaf(x, 1.44269502f, -high) + x * 1.92596299e-8f;
  return __builtin_exp2f(high) * (1.0f + low * 0.693147182f);
}
/// e^x = 2^n · e^rest with |rest| ≤ ln 2 / 2, where thirteen terms of the series are enough.
KILN_DEVICE double exponential(double x) {
  if (!(x > -745.2)) return x != x ? x : 0.0;
  if (x > 709.8) return __builtin_inf();
  const double n = __builtin_rint(x * 1.4426950408889634);
  // ln 2 in two parts, the first short enough that its product with n is exact.
  const double rest = (x - n * 0.693147180369123816) - n * 1.90821492927058770e-10;
  double sum = 1;
  KILN_UNROLL for (int i = 13; i >= 1; --i) sum = 1 + sum * rest * (1.0 / i);
  // In two steps, so that what lies below the normal range is rounded and not lost.
  const int half = int(n) / 2, other = int(n) - half;
  return sum * bits_as<double>(u64(half + 1023) << 52) * bits_as<double>(u64(other + 1023) << 52);
}
/// e^(z²) · erfc(z) · (1 + z) for z ≥ 0 as a polynomial in (z − 2) / (z + 2): kiln's own Chebyshev
/// fit, 1.5e-8 and 1.2e-15 off at most.
constexpr float kTail[] = {0.7661870351f,    -0.2599748323f,    0.03781345416f,  0.0425360077f,
                           -0.02523837793f,  -0.0005142157516f, 0.003915749114f, 0.0001267030013f,
                           -0.000664734809f, -0.0001028771791f, 8.167203183e-5f, 2.400993872e-5f};
template <int Count>
KILN_DEVICE Real complement(Real z, const Real (&tail)[Count]) {
  const Real a = z < 0 ? -z : z, y = (a - 2) / (a + 2);
  Real sum = tail[Count - 1];
  KILN_UNROLL for (int i = Count - 2; i >= 0; --i) sum = sum * y + tail[i];
  const Real e = exponential(-a * a) * sum / (1 + a);
  return z < 0 ? 2 - e : e;
}
/// x · Φ(x). For −∞ the tail is 0 · NaN, where the limit is 0.
KILN_DEVICE Real gelu_erf(Real x) {
  if (x < Real(-40)) return Real(0);
  if (x > Real(40)) return x;
  return Real(0.5) * x * complement(Real(-0.70710678118654752) * x, kTail);
}

KILN_DEVICE float fused(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
KILN_DEVICE double fused(double x, double y, double z) { return __builtin_fma(x, y, z); }

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
  const float* x0;
  const TypeD* x1;
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
  out.x1 = static_cast<const TypeD*>(args.residual) + batch * args.stride_d;
  return out;
}

/// What the expression reads, and what it stores beside D.
struct Extras {
  Real x0;
  Real x1;
};
/// The expression's value for an element that exists; stores what it stores beside D.
KILN_DEVICE Real expressed(const Output& out, Real v,
                           i64 row, i64 column) {
#pragma clang fp contract(off)
  using Value = Real;
  Extras x;
  x.x0 = to_real(out.x0[column]);
  x.x1 = to_real(out.x1[row * out.ldd + column]);
  const Value acc = v;
  v = gelu_erf(acc + x.x0) + x.x1;
  return v;
}

/// What is stored at an element that exists.
KILN_DEVICE TypeD finish(const Output& out, Acc sum, i64 row, i64 column) {
  // Every product is rounded by itself: which of them a compiler fuses with an addition differs
  // from kernel to kernel, and the bits of an element must not.
#pragma clang fp contract(off)
  Real x = out.alpha * Real(sum);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = expressed(out, x, row, column);
  return from_real(x, TypeD{});
}
/// Stores an element that exists.
KILN_DEVICE void finish_and_store(const Output& out, Acc sum, i64 row, i64 column) {
  out.d[row * out.ldd + column] = finish(out, sum, row, column);
}
