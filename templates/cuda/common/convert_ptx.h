// Conversions of one instruction, on the bits of small floats. Rounding is to nearest even. Of two
// values in a register the first is in the low half. Expects types.h.
#pragma once

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
//% if has_bf16_cvt
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
//% end
//% if has_fp8
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
//% end
//% if expressed
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
//% end
