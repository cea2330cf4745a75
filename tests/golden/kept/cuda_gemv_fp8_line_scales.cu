// device:  sm_90a
// problem: fp8 N T 3 5000 1024 align=16 scale=line
// config:  cuda_gemv rows=2 width=16 warps=4 swap=0

// ---- parameters ----
using TypeA = Float8E4;             // elements of A
using TypeB = Float8E4;             // elements of B
using TypeD = Bfloat;               // elements of C and D
using Acc = float;                  // accumulators
using Real = float;                 // what the epilogue computes in
constexpr int kThin = 3;            // rows of the thin operand
constexpr int kRows = 2;            // rows of the wide operand that a warp takes
constexpr int kWidth = 16;          // elements read at once
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
KILN_DEVICE u32 e4m3_to_halves(u16 pair) {
  u32 y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"(pair));
  return y;
}
/// Saturate.
KILN_DEVICE u16 floats_to_e4m3(float low, float high) {
  u16 y;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(high), "f"(low));
  return y;
}
KILN_DEVICE u16 floats_to_e5m2(float low, float high) {
  u16 y;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(y) : "f"(high), "f"(low));
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
// Both 8-bit formats widen to half precision exactly.
KILN_DEVICE Real to_real(Float8E4 x, Float8E4) {
  return to_real(Half{u16(e4m3_to_halves(x.bits))}, Half{});
}
KILN_DEVICE Real to_real(Float8E5 x, Float8E5) { return to_real(Half{u16(x.bits << 8)}, Half{}); }
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
KILN_DEVICE Float8E4 from_real(Real x, Float8E4) {
  return Float8E4{u8(floats_to_e4m3(float(x), 0.0f))};
}
KILN_DEVICE Float8E5 from_real(Real x, Float8E5) {
  return Float8E5{u8(floats_to_e5m2(float(x), 0.0f))};
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  return floats_to_halves(float(low), float(high));
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  return floats_to_bfloats(float(low), float(high));
}
