// device:  x86-64-v4
// problem: bf16_fp8 N T 40 512 1024 group=128
// config:  host_amx_weights isa=amx mt=3 nt=1 kc=512 nc=96 mc=48 parallel=none

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = u8;                 // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of tdpbf16ps
using TypeScale = float;          // scales of B
constexpr int kCodeBits = 8;      // bits of an element of B
constexpr int kGroupK = 128;      // elements along k that share a scale
constexpr int kScaledK = 128;     // elements along k whose sum is scaled at once
constexpr int kMt = 3;            // tiles of 16 columns of B in a block of accumulators
constexpr int kNt = 1;            // tiles of 16 rows of A in it
constexpr int kNv = 1;            // vectors across it
constexpr int kPanelStep = 16;    // rows of a panel of A are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel
constexpr int kRowUnit = 16;      // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 48;   // columns are divided among threads at multiples of this

// ---- cpu/amx_weights/decode.h ----
// Codes of weights to bf16, exactly: a tile's row of kStep codes at once. Expects vector.h, amx.h
// and the parameters.

constexpr int kStep = kTileRows * kGroup;  // k of a tile
constexpr int kStepBytes = kStep * kCodeBits / 8;
using Pairs = Vec<u32, kTileRows>;  // a row of a tile

/// A number has four significant bits, which the upper half of a float holds.
KILN_INLINE Pairs numbers(Vec<u8, kStepBytes> codes, int) {
  using Words = Vec<i32, kTileRows>;
  const Words pairs = __builtin_convertvector(bits_of<Vec<i16, kTileRows>>(codes), Words);
  const Pairs first = bits_of<Pairs>(e4m3_to_float<kTileRows>(pairs << 24));
  const Pairs second = bits_of<Pairs>(e4m3_to_float<kTileRows>(pairs << 16));
  return (first >> 16) | second;
}
