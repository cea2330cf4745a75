// Which codes of a word are a pair: of four bits codes i and i + 4, because one mask takes both out
// of the word; of eight bits codes 2i and 2i + 1. Expects decode.h.
#pragma once

/// Pair `i` of a word.
//% if codes == e2m1
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset&) { return floats_of(codes << 12 - i * 4); }
//% end
//% if codes == e4m3
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset&) {
  return floats_of(__byte_perm(codes, 0, i == 0 ? 0x1404 : 0x3424));
}
//% end
//% if code_bits == 4 && codes == integer
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset& offset) {
  constexpr u32 kTurned = kSignedCodes ? 0x00080008 : 0;
  //% if type_a == bf16
  return fma_pairs(masked_bits(codes >> i * 4, 0x000f000f, 0x43004300 | kTurned), kOnes,
                   offset.pair);
  //% else
  const u32 near = codes >> i / 2 * 8;
  if (i % 2 == 0)
    return fma_pairs(masked_bits(near, 0x000f000f, 0x64006400 | kTurned), kOnes, offset.pair);
  constexpr u32 kSixteenths = 0x2c002c00;
  return fma_pairs(masked_bits(near, 0x00f000f0, 0x64006400 | kTurned << 4), kSixteenths,
                   offset.pair_of_16);
  //% end
}
//% end
//% if code_bits == 8 && codes == integer
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset& offset) {
  const u32 selector = i == 0 ? 0x4140 : 0x4342;
  //% if type_a == bf16
  // Seven bits fit behind the exponent; the sign, which counts -128, is the difference of 128 and
  // 256.
  const u32 halves = __byte_perm(codes, 0, selector);
  const u32 number = fma_pairs(masked_bits(halves, 0x007f007f, 0x43004300), kOnes,
                               masked_bits(halves, 0x00800080, 0xc300c300));
  //% if zeros
  return fma_pairs(number, kOnes, offset.pair);
  //% else
  return number;
  //% end
  //% else
  const u32 halves = __byte_perm(codes ^ 0x80808080, 0x64646464, selector);
  return fma_pairs(halves, kOnes, offset.pair);
  //% end
}
//% end

/// The same pairs of the other operand, whose elements lie side by side: four words of eight, two
/// of four.
KILN_DEVICE void pair_alike(u32 (&x)[kPairs]) {
  //% if code_bits == 4
  const u32 y[4] = {x[0], x[1], x[2], x[3]};
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    x[i] = __byte_perm(y[i / 2], y[i / 2 + 2], i % 2 == 0 ? 0x5410 : 0x7632);
  //% end
}
