// Codes of weights to bf16, exactly: a tile's row of kStep codes at once. Expects vector.h, amx.h
// and the parameters.
#pragma once

constexpr int kStep = kTileRows * kGroup;  // k of a tile
constexpr int kStepBytes = kStep * kCodeBits / 8;
using Pairs = Vec<u32, kTileRows>;  // a row of a tile

//% if codes == e2m1
constexpr u16 bfloat_of(float value) { return u16(__builtin_bit_cast(u32, value) >> 16); }
constexpr float code_value(int code) { return e2m1_number(code); }
//% end
//% if code_bits == 4 && codes == integer
constexpr u16 bfloat_of(int value) { return u16(__builtin_bit_cast(u32, float(value)) >> 16); }
constexpr int code_value(int code) { return kSignedCodes ? (code ^ 8) - 8 : code; }
//% end
//% if code_bits == 4

/// Of each zero point the numbers of all codes, twice: an index has five bits, a code four.
struct Tables {
  alignas(64) u16 of[16][32];
  constexpr Tables() : of() {
    for (int zero = 0; zero < 16; ++zero)
      for (int i = 0; i < 32; ++i) of[zero][i] = bfloat_of(code_value(i & 15) - zero_value(zero));
  }
  static constexpr int zero_value([[maybe_unused]] int zero) {
    //% if zeros
    return code_value(zero);
    //% else
    return 0;
    //% end
  }
};
static constexpr Tables kTables;

/// The 16 bytes hold neighbours in pairs, the first of them in the low half.
KILN_INLINE Pairs numbers(Vec<u8, kStepBytes> codes, int zero) {
  const Pairs bytes = __builtin_convertvector(codes, Pairs);
  using Words = Vec<short, 32>;
  // Of a half the low four bits count: its code is there, what stands above is ignored.
  return bits_of<Pairs>(__builtin_ia32_permvarhi512(load<Words>(kTables.of[zero]),
                                                    bits_of<Words>(bytes | (bytes << 12))));
}
//% end
//% if codes == e4m3
/// A number has four significant bits, which the upper half of a float holds.
KILN_INLINE Pairs numbers(Vec<u8, kStepBytes> codes, int) {
  using Words = Vec<i32, kTileRows>;
  const Words pairs = __builtin_convertvector(bits_of<Vec<i16, kTileRows>>(codes), Words);
  const Pairs first = bits_of<Pairs>(e4m3_to_float<kTileRows>(pairs << 24));
  const Pairs second = bits_of<Pairs>(e4m3_to_float<kTileRows>(pairs << 16));
  return (first >> 16) | second;
}
//% end
//% if code_bits == 8 && codes == integer
KILN_INLINE Pairs upper_halves(Vec<i32, kTileRows> whole) {
  return bits_of<Pairs>(__builtin_convertvector(whole, Vec<float, kTileRows>)) & 0xffff0000u;
}

/// A number of nine bits with a sign has its last bit in the upper half of a float.
KILN_INLINE Pairs numbers(Vec<u8, kStepBytes> codes, int zero) {
  using Words = Vec<i32, kTileRows>;
  const Words pairs = __builtin_convertvector(bits_of<Vec<i16, kTileRows>>(codes), Words);
  return (upper_halves(((pairs << 24) >> 24) - zero) >> 16) | upper_halves((pairs >> 8) - zero);
}
//% end
