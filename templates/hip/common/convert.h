// Between stored elements and the epilogue's type (Real). Rounding is to nearest even; integers
// saturate. Expects types.h and the parameters.
#pragma once

KILN_DEVICE Real to_real(float x) { return Real(x); }
KILN_DEVICE Real to_real(double x) { return Real(x); }
KILN_DEVICE Real to_real(i8 x) { return Real(x); }
KILN_DEVICE Real to_real(u8 x) { return Real(x); }
KILN_DEVICE Real to_real(i32 x) { return Real(x); }
KILN_DEVICE Real to_real(Half x) { return Real(bits_as<_Float16>(x.bits)); }
KILN_DEVICE Real to_real(Bfloat x) { return Real(bits_as<float>(u32(x.bits) << 16)); }
//% if has_fp8 || fp8_d || uses_fp8_e4m3
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
//% end

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
  //% if has_bf16_cvt
  return Bfloat{bits_as<u16>(__bf16(float(x)))};
  //% else
  const u32 bits = bits_as<u32>(float(x));
  const u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return Bfloat{u16((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded)};
  //% end
}
//% if fp8_d || uses_fp8_e4m3
KILN_DEVICE u32 float_to_bits(float x) { return bits_as<u32>(x); }

//% include cuda/common/e4m3.h
KILN_DEVICE Float8<3, false> from_real(Real x, Float8<3, false>) {
  return Float8<3, false>{nearest_e4m3(float(x))};
}
//% end
