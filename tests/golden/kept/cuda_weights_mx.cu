// device:  sm_80
// problem: bf16_fp4 N T 16 4096 4096 align=16 group=mx32
// config:  cuda_weights tile_n=64 tile_m=16 block_k=128 warps=4 stages=4 group=8 splits=1

// ---- cuda/common/types.h ----
// Names of the element types and the mark of device functions. No headers are used anywhere, so
// that a generated source is self-contained.

#define KILN_DEVICE static __device__ __forceinline__
// A kernel takes what it needs of the shared parts; the rest is no mistake.
#pragma nv_diag_suppress 177

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

/// Storage of the small formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
struct Float8E4 {
  u8 bits;
};
struct Float8E5 {
  u8 bits;
};
struct E8m0 {
  u8 bits;
};

static __device__ constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// ---- parameters ----
using TypeA = Bfloat;           // elements of A
using TypeB = u8;               // elements of B
using TypeD = Bfloat;           // elements of C and D
using Acc = float;              // accumulators
using Real = float;             // what the epilogue computes in
using TypeScale = E8m0;         // scales of B
constexpr int kCodeBits = 4;    // bits of an element of B
constexpr int kGroupK = 32;     // elements along k that share a scale
using Fragment = u32;           // a register of an operand
constexpr int kTileN = 64;      // columns of D in a block's tile
constexpr int kTileM = 16;      // rows of D in it
constexpr int kBlockK = 128;    // k of one stage
constexpr int kDecodeK = 64;    // k of a chunk, which is decoded together
constexpr int kThreads = 128;   // of a block
constexpr int kBlocks = 4;      // that are to fit one SM
constexpr int kTilesM = 1;      // 16 columns each, of a warp
constexpr int kTilesN = 2;      // 8 rows each, of a warp
constexpr int kAtOnce = 2;      // tiles of 8 rows whose sums wait for a scale
constexpr int kStages = 4;      // of the ring
constexpr int kUnit = 16;       // bytes of one copy to shared memory
constexpr int kBitsA = 1;       // of a byte's place in a line of A that are exchanged
constexpr int kBaseA = 6;       // the first of them
constexpr int kBitsB = 2;       // the same for B, from bit 4 on
constexpr int kShiftB = 1;      // with bits of the line's number from here on
constexpr int kStoreWidth = 8;  // elements of D stored at once
constexpr int kGroup = 8;       // tiles along n in a band of the rasterization
constexpr int kMmaSums = 4;     // registers of sums of the matrix instruction
constexpr int kMmaA = 4;        // registers of weights
constexpr int kMmaB = 2;        // registers of A
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/common/convert.h ----
// Between stored elements and the type that sums are finished in (Real). Rounding is to nearest
// even; integers saturate. Expects convert_ptx.h and the parameters.

KILN_DEVICE float bits_to_float(u32 bits) { return __int_as_float(int(bits)); }
KILN_DEVICE u32 float_to_bits(float x) { return u32(__float_as_int(x)); }

KILN_DEVICE Real to_real(float x, float) { return Real(x); }
KILN_DEVICE Real to_real(double x, double) { return Real(x); }
KILN_DEVICE Real to_real(i8 x, i8) { return Real(x); }
KILN_DEVICE Real to_real(u8 x, u8) { return Real(x); }
KILN_DEVICE Real to_real(i32 x, i32) { return Real(x); }
KILN_DEVICE Real to_real(Bfloat x, Bfloat) { return Real(bits_to_float(u32(x.bits) << 16)); }
KILN_DEVICE Real to_real(Half x, Half) { return Real(half_to_float(x.bits)); }
/// 2^(code - 127), of which the least is a denormal; the last code is a NaN.
KILN_DEVICE Real to_real(E8m0 x, E8m0) {
  const u32 first_or_last = u8(x.bits + 1) < 2 ? 0x00400000 : 0;
  return Real(bits_to_float(u32(x.bits) << 23 | first_or_last));
}
template <typename T>
KILN_DEVICE Real to_real(T x) {
  return to_real(x, T{});
}

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
KILN_DEVICE i32 from_real(Real x, i32) { return float_to_int(float(x)); }
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) { return Half{float_to_half(float(x))}; }
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  return Bfloat{float_to_bfloat(float(x))};
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  return floats_to_halves(float(low), float(high));
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  return floats_to_bfloats(float(low), float(high));
}

// ---- cuda/weights/decode.h ----
// Codes of weights to numbers of A's type, exactly, two in a register. A word of codes becomes
// kPairs pairs. Of integers a mask leaves the code in the low bits of a number whose exponent makes
// them whole: 128 + code in bf16, 1024 + code in half precision. Of floats the bits are moved to
// where A's type has them. Expects decode_ptx.h, convert.h.

constexpr int kPairs = 16 / kCodeBits;

constexpr u32 kOnes = 0x3f803f80;

/// There are no zero points.
struct Offset {};
KILN_DEVICE Offset offset_of(int) { return {}; }

/// The numbers of two codes (e2m1), each in the top bits of a half; what lies below is ignored.
/// A shift puts exponent and mantissa where A's type has them, and a product puts the exponent's
/// bias right, of the denormal too. The addend, -0, leaves every number as it is.
KILN_DEVICE u32 floats_of(u32 codes) {
  constexpr u32 kMinusZeros = 0x80008000;
  return fma_pairs(codes >> 6 & 0x01c001c0, masked_bits(codes, 0x80008000, 0x7e807e80),  // 2^126
                   kMinusZeros);
}

// ---- cuda/weights/pairs.h ----
// Which codes of a word are a pair: of four bits codes i and i + 4, because one mask takes both out
// of the word; of eight bits codes 2i and 2i + 1. Expects decode.h.

/// Pair `i` of a word.
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset&) { return floats_of(codes << 12 - i * 4); }

/// The same pairs of the other operand, whose elements lie side by side: four words of eight, two
/// of four.
KILN_DEVICE void pair_alike(u32 (&x)[kPairs]) {
  const u32 y[4] = {x[0], x[1], x[2], x[3]};
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    x[i] = __byte_perm(y[i / 2], y[i / 2 + 2], i % 2 == 0 ? 0x5410 : 0x7632);
}
