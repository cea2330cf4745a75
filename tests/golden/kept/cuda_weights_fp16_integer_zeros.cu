// device:  sm_80
// problem: fp16_uint4 N T 4 4096 4096 align=16 group=32 scale_type=fp16 zero=int
// config:  cuda_weights tile_n=64 tile_m=8 block_k=128 warps=4 stages=4 group=8 splits=1

// ---- parameters ----
using TypeA = Half;                   // elements of A
using TypeB = u8;                     // elements of B
using TypeD = Half;                   // elements of C and D
using Acc = float;                    // accumulators
using Real = float;                   // what the epilogue computes in
using TypeScale = Half;               // scales of B
using TypeZero = u8;                  // zero points of B
constexpr int kCodeBits = 4;          // bits of an element of B
constexpr int kGroupK = 32;           // elements along k that share a scale
constexpr bool kSignedCodes = false;  // codes are two's complement
using Fragment = u32;                 // a register of an operand
constexpr int kTileN = 64;            // columns of D in a block's tile
constexpr int kTileM = 8;             // rows of D in it
constexpr int kBlockK = 128;          // k of one stage
constexpr int kDecodeK = 64;          // k of a chunk, which is decoded together
constexpr int kThreads = 128;         // of a block
constexpr int kBlocks = 5;            // that are to fit one SM
constexpr int kTilesM = 1;            // 16 columns each, of a warp
constexpr int kTilesN = 1;            // 8 rows each, of a warp
constexpr int kAtOnce = 1;            // tiles of 8 rows whose sums wait for a scale
constexpr int kStages = 4;            // of the ring
constexpr int kUnit = 16;             // bytes of one copy to shared memory
constexpr int kBitsA = 1;             // of a byte's place in a line of A that are exchanged
constexpr int kBaseA = 6;             // the first of them
constexpr int kBitsB = 2;             // the same for B, from bit 4 on
constexpr int kShiftB = 1;            // with bits of the line's number from here on
constexpr int kStoreWidth = 8;        // elements of D stored at once
constexpr int kGroup = 8;             // tiles along n in a band of the rasterization
constexpr int kMmaSums = 4;           // registers of sums of the matrix instruction
constexpr int kMmaA = 4;              // registers of weights
constexpr int kMmaB = 2;              // registers of A
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/weights/decode_ptx.h ----
// Arithmetic on two small floats in one register, and on their bits. Expects types.h.

/// (x & mask) ^ bits. Left to the compiler it becomes two instructions, of one constant each.
KILN_DEVICE u32 masked_bits(u32 x, u32 mask, u32 bits) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(x), "r"(mask), "r"(bits));
  return r;
}

/// x · y + z, rounded once.
KILN_DEVICE u32 fma_pairs(u32 x, u32 y, u32 z) {
  u32 r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  return r;
}

// ---- cuda/weights/decode.h ----
// Codes of weights to numbers of A's type, exactly, two in a register. A word of codes becomes
// kPairs pairs. Of integers a mask leaves the code in the low bits of a number whose exponent makes
// them whole: 128 + code in bf16, 1024 + code in half precision. Of floats the bits are moved to
// where A's type has them. Expects decode_ptx.h, convert.h.

constexpr int kPairs = 16 / kCodeBits;

constexpr u32 kOnes = 0x3c003c00;

/// What is added to the numbers of a column: less the offset that they have, less the zero point.
struct Offset {
  u32 pair;
  u32 pair_of_16;  // of those that count sixteenths
};

KILN_DEVICE Offset offset_of(int zero) {
  Offset offset;
  // The sign bit was turned over, so that codes are 8 more than they count.
  const u32 more = u32(zero + (kSignedCodes ? 8 : 0));
  offset.pair = (0xe400 | more) * 0x10001;             // -(1024 + more), twice
  offset.pair_of_16 = (0xd400 | more << 4) * 0x10001;  // -(64 + more)
  return offset;
}

// ---- cuda/weights/pairs.h ----
// Which codes of a word are a pair: of four bits codes i and i + 4, because one mask takes both out
// of the word; of eight bits codes 2i and 2i + 1. Expects decode.h.

/// Pair `i` of a word.
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset& offset) {
  constexpr u32 kTurned = kSignedCodes ? 0x00080008 : 0;
  const u32 near = codes >> i / 2 * 8;
  if (i % 2 == 0)
    return fma_pairs(masked_bits(near, 0x000f000f, 0x64006400 | kTurned), kOnes, offset.pair);
  constexpr u32 kSixteenths = 0x2c002c00;
  return fma_pairs(masked_bits(near, 0x00f000f0, 0x64006400 | kTurned << 4), kSixteenths,
                   offset.pair_of_16);
}

/// The same pairs of the other operand, whose elements lie side by side: four words of eight, two
/// of four.
KILN_DEVICE void pair_alike(u32 (&x)[kPairs]) {
  const u32 y[4] = {x[0], x[1], x[2], x[3]};
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    x[i] = __byte_perm(y[i / 2], y[i / 2 + 2], i % 2 == 0 ? 0x5410 : 0x7632);
}

// ---- cuda/weights/scaling.h ----
// Scales and zero points of a lane's columns of op(B): fetched a chunk before they are needed.
// Expects decode.h, convert.h.

constexpr int kLaneColumns = kTilesM * 2;
constexpr int kGroups = kDecodeK / kGroupK;

/// As they come from memory: a conversion would wait for it.
struct Fetched {
  TypeScale scale[kLaneColumns][kGroups];
  TypeZero zero[kLaneColumns][kGroups];
};

/// As they are used.
struct Factors {
  float scale[kLaneColumns][kGroups];
  Offset offset[kLaneColumns][kGroups];
};

struct Scaling {
  const TypeScale* scales;
  const TypeZero* zeros;
  u32 first[kLaneColumns];  // group of each column, of all groups
  int groups;               // of a column

  /// `column0`: the warp's first column. Columns that do not exist repeat the last one.
  static __device__ __forceinline__ Scaling at(const KilnGpuArgs& args, i64 batch, int column0,
                                               int lane) {
    Scaling s;
    s.groups = int(args.k) / kGroupK;
    s.scales = static_cast<const TypeScale*>(args.scale_b);
    s.zeros = static_cast<const TypeZero*>(args.zero_b);
    _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
      const int column = min(column0 + c * 8 + lane / 4, int(args.n) - 1);
      s.first[c] = u32(int(batch) * int(args.n) + column) * u32(s.groups);
    }
    return s;
  }

  /// Those of chunk `chunk` of all of k. Groups beyond k have scale 0.
  __device__ __forceinline__ void fetch(Fetched& to, int chunk) const {
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g) {
      const int group = chunk * kGroups + g;
      const bool exists = group < groups;
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        const u32 at = first[c] + u32(exists ? group : 0);
        to.scale[c][g] = exists ? scales[at] : TypeScale{};
        to.zero[c][g] = exists ? zeros[at / 2] : TypeZero{};
      }
    }
  }

  __device__ __forceinline__ Factors factors(const Fetched& from, int chunk) const {
    Factors f;
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        f.scale[c][g] = to_real(from.scale[c][g]);
        const u32 at = first[c] + u32(chunk * kGroups + g);
        const int code = from.zero[c][g] >> at % 2 * 4 & 15;
        f.offset[c][g] = offset_of(kSignedCodes ? (code ^ 8) - 8 : code);
      }
    return f;
  }
};
