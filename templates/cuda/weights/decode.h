// Codes of weights to numbers of A's type, exactly, two in a register. A word of codes becomes
// kPairs pairs. Of integers a mask leaves the code in the low bits of a number whose exponent makes
// them whole: 128 + code in bf16, 1024 + code in half precision. Of floats the bits are moved to
// where A's type has them. Expects decode_ptx.h, convert.h.
#pragma once

constexpr int kPairs = 16 / kCodeBits;

//% if type_a == bf16
constexpr u32 kOnes = 0x3f803f80;
//% else
constexpr u32 kOnes = 0x3c003c00;
//% end

//% if codes != integer
/// There are no zero points.
struct Offset {};
KILN_DEVICE Offset offset_of(int) { return {}; }
//% end

//% if codes == e2m1
/// The numbers of two codes (e2m1), each in the top bits of a half; what lies below is ignored.
/// A shift puts exponent and mantissa where A's type has them, and a product puts the exponent's
/// bias right, of the denormal too. The addend, -0, leaves every number as it is.
KILN_DEVICE u32 floats_of(u32 codes) {
  constexpr u32 kMinusZeros = 0x80008000;
  //% if type_a == bf16
  return fma_pairs(codes >> 6 & 0x01c001c0, masked_bits(codes, 0x80008000, 0x7e807e80),  // 2^126
                   kMinusZeros);
  //% else
  return fma_pairs(codes >> 3 & 0x0e000e00, masked_bits(codes, 0x80008000, 0x74007400),  // 2^14
                   kMinusZeros);
  //% end
}
//% end
//% if codes == e4m3
/// The numbers of two codes (e4m3), each in the high byte of a half. A shift puts exponent and
/// mantissa where A's type has them, and a product puts the exponent's bias right, of denormals
/// too. The largest magnitude is a NaN: one more reaches the sign bit, which is copied to all bits
/// and added as a NaN. Other codes add zero, which makes +0 of -0: a sum of products is the same.
KILN_DEVICE u32 floats_of(u32 codes) {
  const u32 magnitudes = codes & 0x7f007f00;
  const u32 nans = signs_of_halves(magnitudes + 0x01000100);
  //% if type_a == bf16
  return fma_pairs(magnitudes >> 4, masked_bits(codes, 0x80008000, 0x7b807b80), nans);  // 2^120
  //% else
  return fma_pairs(magnitudes >> 1, masked_bits(codes, 0x80008000, 0x5c005c00), nans);  // 2^8
  //% end
}
//% end
//% if codes == integer
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
//% end
