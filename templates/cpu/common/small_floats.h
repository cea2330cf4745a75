//% if codes == e2m1 || mx_scales
// Codes of blocks of 32 to numbers of fp32, exactly: elements (e2m1) and scales (e8m0). Expects
// types.h, vector.h.
#pragma once

//% if codes == e2m1
/// The number of a code (e2m1).
constexpr float e2m1_number(int code) {
  const int quarters = code & 6 ? (2 + (code & 1)) << (code >> 1 & 3) : (code & 1) * 2;
  return float(quarters) / float(code & 8 ? -4 : 4);
}
//% if isa == avx2
/// Numbers of codes (e2m1) in the top bits of lanes: an index has three bits, the sign is copied.
template <int L>
KILN_INLINE Vec<float, L> e2m1_to_float(Vec<i32, L> top) {
  static_assert(L == 8, "a table of eight");
  const Vec<float, 8> magnitudes = {e2m1_number(0), e2m1_number(1), e2m1_number(2), e2m1_number(3),
                                    e2m1_number(4), e2m1_number(5), e2m1_number(6), e2m1_number(7)};
  const auto magnitude = __builtin_ia32_permvarsf256(magnitudes, top >> 28);
  return bits_of<Vec<float, L>>(bits_of<Vec<i32, L>>(magnitude) | (top & i32(0x80000000u)));
}
//% else
/// Numbers of codes (e2m1) in the top bits of lanes: exponent and mantissa are moved to fp32's
/// place, where x is right but for zero, which is 0.5, and the denormal, which is 0.75 in place of
/// 0.5. 2x - 1 is right for these two and no less than x for the others. (The product by which
/// e4m3_to_float() makes denormals right is slow on Intel's processors where it meets one.)
template <int L>
KILN_INLINE Vec<float, L> e2m1_to_float(Vec<i32, L> top) {
  const auto x = bits_of<Vec<float, L>>(((top >> 6) & 0x01c00000) + 0x3f000000);
  const Vec<float, L> magnitude = __builtin_elementwise_min(x, x + (x - 1.0f));
  return bits_of<Vec<float, L>>(bits_of<Vec<i32, L>>(magnitude) | (top & i32(0x80000000u)));
}
//% end
//% end
//% if mx_scales
template <>
struct RawOf<E8m0> {
  using type = u8;
};
/// 2^(code - 127), of which the least is a denormal; the last code is a NaN.
template <int L>
KILN_INLINE Vec<Real, L> to_real(Vec<u8, L> raw, E8m0) {
  const Vec<u32, L> code = __builtin_convertvector(raw, Vec<u32, L>);
  const Vec<u32, L> first_or_last =
      ((code + 1u) & 0xffu) < 2u ? Vec<u32, L>(0x00400000u) : Vec<u32, L>(0u);
  return bits_of<Vec<Real, L>>((code << 23) | first_or_last);
}
//% end
//% end
