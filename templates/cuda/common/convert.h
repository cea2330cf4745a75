// Between stored elements and the type that sums are finished in (Real). Rounding is to nearest
// even; integers saturate. Expects convert_ptx.h and the parameters.
#pragma once

KILN_DEVICE float bits_to_float(u32 bits) { return __int_as_float(int(bits)); }
KILN_DEVICE u32 float_to_bits(float x) { return u32(__float_as_int(x)); }

KILN_DEVICE Real to_real(float x, float) { return Real(x); }
KILN_DEVICE Real to_real(double x, double) { return Real(x); }
KILN_DEVICE Real to_real(i8 x, i8) { return Real(x); }
KILN_DEVICE Real to_real(u8 x, u8) { return Real(x); }
KILN_DEVICE Real to_real(i32 x, i32) { return Real(x); }
KILN_DEVICE Real to_real(Bfloat x, Bfloat) { return Real(bits_to_float(u32(x.bits) << 16)); }
KILN_DEVICE Real to_real(Half x, Half) { return Real(half_to_float(x.bits)); }
//% if mx_scales
/// 2^(code - 127), of which the least is a denormal; the last code is a NaN.
KILN_DEVICE Real to_real(E8m0 x, E8m0) {
  const u32 first_or_last = u8(x.bits + 1) < 2 ? 0x00400000 : 0;
  return Real(bits_to_float(u32(x.bits) << 23 | first_or_last));
}
//% end
//% if has_fp8
// Both 8-bit formats widen to half precision exactly.
KILN_DEVICE Real to_real(Float8E4 x, Float8E4) {
  return to_real(Half{u16(e4m3_to_halves(x.bits))}, Half{});
}
KILN_DEVICE Real to_real(Float8E5 x, Float8E5) { return to_real(Half{u16(x.bits << 8)}, Half{}); }
//% end
//% if soft_fp8
KILN_DEVICE Real to_real(Float8E4 x, Float8E4) {
  const u32 magnitude = x.bits & 0x7f, sign = u32(x.bits & 0x80) << 24;
  // The product puts the exponent's bias right, of denormals too.
  const float number = bits_to_float(magnitude << 20) * 0x1p120f;
  return Real(bits_to_float(sign | (magnitude == 0x7f ? 0x7fc00000 : float_to_bits(number))));
}
//% end
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
  //% if has_bf16_cvt
  return Bfloat{float_to_bfloat(float(x))};
  //% else
  const u32 bits = float_to_bits(float(x));
  if ((bits & 0x7fffffff) > 0x7f800000) return Bfloat{0x7fff};
  return Bfloat{u16((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  //% end
}
//% if has_fp8
KILN_DEVICE Float8E4 from_real(Real x, Float8E4) {
  return Float8E4{u8(floats_to_e4m3(float(x), 0.0f))};
}
KILN_DEVICE Float8E5 from_real(Real x, Float8E5) {
  return Float8E5{u8(floats_to_e5m2(float(x), 0.0f))};
}
//% end
//% if soft_fp8

//% include cuda/common/e4m3.h
KILN_DEVICE Float8E4 from_real(Real x, Float8E4) { return Float8E4{nearest_e4m3(float(x))}; }
//% end

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  return floats_to_halves(float(low), float(high));
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  //% if has_bf16_cvt
  return floats_to_bfloats(float(low), float(high));
  //% else
  return u32(from_real(low, Bfloat{}).bits) | u32(from_real(high, Bfloat{}).bits) << 16;
  //% end
}
//% if scale_d
/// The same of bytes, in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, i8) {
  return u32(u8(from_real(low, i8{}))) | u32(u8(from_real(high, i8{}))) << 8;
}
//% if has_fp8
KILN_DEVICE u32 pack_two(Real low, Real high, Float8E4) {
  return floats_to_e4m3(float(low), float(high));
}
//% end
//% end
