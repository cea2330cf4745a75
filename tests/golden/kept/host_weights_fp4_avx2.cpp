// device:  x86-64-v3
// problem: fp16_fp4 N T 1 4096 4096 group=mx32
// config:  host_weights isa=avx2 pairs=0 mr=1 nr=4 ahead=1 parallel=none

// ---- parameters ----
using TypeA = Half;               // elements of A
using TypeB = u8;                 // elements of B
using TypeD = Half;               // elements of C and D
constexpr int kVectorBytes = 32;  // accumulators of vfmadd231ps
using TypeScale = E8m0;           // scales of B
constexpr int kCodeBits = 4;      // bits of an element of B
constexpr int kGroupK = 32;       // elements along k that share a scale
constexpr int kMr = 1;            // rows of A in the tile
constexpr int kNr = 4;            // columns of B in the tile
constexpr int kRowUnit = 1;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 4;    // columns are divided among threads at multiples of this

// ---- cpu/common/small_floats.h ----
// Codes of blocks of 32 to numbers of fp32, exactly: elements (e2m1) and scales (e8m0). Expects
// types.h, vector.h.

/// The number of a code (e2m1).
constexpr float e2m1_number(int code) {
  const int quarters = code & 6 ? (2 + (code & 1)) << (code >> 1 & 3) : (code & 1) * 2;
  return float(quarters) / float(code & 8 ? -4 : 4);
}
/// Numbers of codes (e2m1) in the top bits of lanes: an index has three bits, the sign is copied.
template <int L>
KILN_INLINE Vec<float, L> e2m1_to_float(Vec<i32, L> top) {
  static_assert(L == 8, "a table of eight");
  const Vec<float, 8> magnitudes = {e2m1_number(0), e2m1_number(1), e2m1_number(2), e2m1_number(3),
                                    e2m1_number(4), e2m1_number(5), e2m1_number(6), e2m1_number(7)};
  const auto magnitude = __builtin_ia32_permvarsf256(magnitudes, top >> 28);
  return bits_of<Vec<float, L>>(bits_of<Vec<i32, L>>(magnitude) | (top & i32(0x80000000u)));
}
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
