// fp8_e4m3 where no instruction converts to it. Expects float_to_bits().
#pragma once

/// The nearest code, ties to even; what is larger than 448 becomes 448.
KILN_DEVICE u8 nearest_e4m3(float x) {
  const u32 bits = float_to_bits(x), magnitude = bits & 0x7fffffff, sign = bits >> 24 & 0x80;
  if (magnitude > 0x7f800000) return u8(sign | 0x7f);
  u32 code = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120 << 3);
  // Adding 2^14 aligns a denormal's last bit with the float's, rounding to nearest even on the way.
  if (magnitude < 0x3c800000) code = float_to_bits((x < 0 ? -x : x) + 0x1p14f) - 0x46800000;
  return u8(sign | (code > 0x7e ? 0x7e : code));
}
