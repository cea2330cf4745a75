// device:  x86-64
// problem: fp16_fp4 N T 1 4096 4096 group=k
// config:  host_weights isa=portable pairs=0 mr=1 nr=2 ahead=1 parallel=none

// ---- parameters ----
using TypeA = Half;               // elements of A
using TypeB = u8;                 // elements of B
using TypeD = Half;               // elements of C and D
constexpr int kVectorBytes = 16;  // accumulators of multiply, add
using TypeScale = float;          // scales of B
constexpr int kCodeBits = 4;      // bits of an element of B
constexpr int kMr = 1;            // rows of A in the tile
constexpr int kNr = 2;            // columns of B in the tile
constexpr int kRowUnit = 1;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 2;    // columns are divided among threads at multiples of this

// ---- cpu/common/small_floats.h ----
// Codes of blocks of 32 to numbers of fp32, exactly: elements (e2m1) and scales (e8m0). Expects
// types.h, vector.h.

/// The number of a code (e2m1).
constexpr float e2m1_number(int code) {
  const int quarters = code & 6 ? (2 + (code & 1)) << (code >> 1 & 3) : (code & 1) * 2;
  return float(quarters) / float(code & 8 ? -4 : 4);
}
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
