// Codes of weights to numbers of A's type, exactly, two in a register. A word of codes becomes
// kPairs pairs. Of four bits, pair i holds codes i and i + 4, because one mask takes both out of the
// word; of eight bits codes 2i and 2i + 1. A mask leaves the code in the low bits of a number whose
// exponent makes them whole: 128 + code in bf16, 1024 + code in half precision. Expects
// decode_ptx.h, convert.h.
#pragma once

constexpr int kPairs = 16 / kCodeBits;

//% if type_a == bf16
constexpr u32 kOnes = 0x3f803f80;
//% else
constexpr u32 kOnes = 0x3c003c00;
//% end

/// What is added to the numbers of a column: less the offset that they have, less the zero point.
struct Offset {
  u32 pair;
  //% if type_a == fp16 && code_bits == 4
  u32 pair_of_16;  // of those that count sixteenths
  //% end
};

KILN_DEVICE Offset offset_of(int zero) {
  Offset offset;
  //% if code_bits == 4
  // The sign bit was turned over, so that codes are 8 more than they count.
  const u32 more = u32(zero + (kSignedCodes ? 8 : 0));
  //% if type_a == bf16
  offset.pair = (0xc300 | more) * 0x10001;  // -(128 + more), twice
  //% else
  offset.pair = (0xe400 | more) * 0x10001;             // -(1024 + more), twice
  offset.pair_of_16 = (0xd400 | more << 4) * 0x10001;  // -(64 + more)
  //% end
  //% else
  //% if type_a == bf16
  offset.pair = pack_two(Real(-zero), Real(-zero), TypeA{});
  //% else
  offset.pair = (0xe400 | u32(128 + zero)) * 0x10001;  // -(1024 + 128 + zero), twice
  //% end
  //% end
  return offset;
}

/// Pair `i` of a word.
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset& offset) {
  //% if code_bits == 4
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
  //% else
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
  //% end
}

/// The same pairs of the other operand, whose elements lie side by side: four words of eight, two of
/// four.
KILN_DEVICE void pair_alike(u32 (&x)[kPairs]) {
  //% if code_bits == 4
  const u32 y[4] = {x[0], x[1], x[2], x[3]};
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    x[i] = __byte_perm(y[i / 2], y[i / 2 + 2], i % 2 == 0 ? 0x5410 : 0x7632);
  //% end
}
