// device:  x86-64-v4
// problem: bf16_fp4 N T 40 512 1024 group=mx32
// config:  host_amx_weights isa=amx mt=3 nt=1 kc=512 nc=96 mc=48 parallel=none

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = u8;                 // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of tdpbf16ps
using TypeScale = E8m0;           // scales of B
constexpr int kCodeBits = 4;      // bits of an element of B
constexpr int kGroupK = 32;       // elements along k that share a scale
constexpr int kScaledK = 32;      // elements along k whose sum is scaled at once
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

constexpr u16 bfloat_of(float value) { return u16(__builtin_bit_cast(u32, value) >> 16); }
constexpr float code_value(int code) { return e2m1_number(code); }

/// Of each zero point the numbers of all codes, twice: an index has five bits, a code four.
struct Tables {
  alignas(64) u16 of[16][32];
  constexpr Tables() : of() {
    for (int zero = 0; zero < 16; ++zero)
      for (int i = 0; i < 32; ++i) of[zero][i] = bfloat_of(code_value(i & 15) - zero_value(zero));
  }
  static constexpr int zero_value([[maybe_unused]] int zero) {
    return 0;
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
