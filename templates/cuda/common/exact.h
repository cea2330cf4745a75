// Functions of expressions that no device computes otherwise: what is chosen, random numbers, and
// casts. Expects convert.h and the parameter Real.
#pragma once

//% if reads_host
/// Of an operand in the host's memory: the bits of its value stand where an address would.
template <typename T>
KILN_DEVICE T value_in(const void* bits) {
  union {
    const void* all;
    T value;
  } x;
  x.all = bits;
  return x.value;
}
//% end
//% if uses_relu
KILN_DEVICE Real relu(Real x) { return x < Real(0) ? Real(0) : x; }  // NaN stays NaN
//% end
//% if uses_min || uses_clamp
KILN_DEVICE Real smaller(Real x, Real y) { return x < y || x != x ? x : y; }  // NaN stays NaN
//% end
//% if uses_max || uses_clamp
KILN_DEVICE Real larger(Real x, Real y) { return x > y || x != x ? x : y; }
//% end
//% if uses_clamp
KILN_DEVICE Real clamped(Real x, Real low, Real high) { return smaller(larger(x, low), high); }
//% end
//% if uses_random
/// Of two numbers of 32 bits one whose bits depend on all of theirs.
KILN_DEVICE u32 mixed_bits(u32 x, u32 y) {
  x ^= y * 0x9e3779b1u + 0x7f4a7c15u;
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}
/// From 0 to 1, of whole numbers.
KILN_DEVICE Real drawn(Real seed, Real x, Real y) {
  const u32 bits = mixed_bits(mixed_bits(mixed_bits(0, u32(seed)), u32(x)), u32(y));
  return Real(bits >> 8) * Real(0x1p-24);
}
//% end
//% if uses_fp32
KILN_DEVICE Real to_fp32(Real x) { return Real(float(x)); }
//% end
//% if uses_fp16
KILN_DEVICE Real to_fp16(Real x) { return to_real(from_real(x, Half{})); }
//% end
//% if uses_bf16
KILN_DEVICE Real to_bf16(Real x) { return to_real(from_real(x, Bfloat{})); }
//% end
//% if uses_s8
KILN_DEVICE Real to_s8(Real x) { return to_real(from_real(x, i8{})); }
//% end
