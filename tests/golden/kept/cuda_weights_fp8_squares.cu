// device:  sm_80
// problem: bf16_fp8 N T 16 4096 4096 align=16 group=128x128
// config:  cuda_weights tile_n=64 tile_m=16 block_k=128 warps=4 stages=4 group=8 splits=1

// ---- parameters ----
using TypeA = Bfloat;               // elements of A
using TypeB = u8;                   // elements of B
using TypeD = Bfloat;               // elements of C and D
using Acc = float;                  // accumulators
using Real = float;                 // what the epilogue computes in
using TypeScale = float;            // scales of B
constexpr int kCodeBits = 8;        // bits of an element of B
constexpr int kGroupK = 128;        // elements along k that share a scale
constexpr int kGroupColumns = 128;  // columns of B that share a scale
using Fragment = u32;               // a register of an operand
constexpr int kTileN = 64;          // columns of D in a block's tile
constexpr int kTileM = 16;          // rows of D in it
constexpr int kBlockK = 128;        // k of one stage
constexpr int kDecodeK = 128;       // k of a chunk, which is decoded together
constexpr int kThreads = 128;       // of a block
constexpr int kBlocks = 3;          // that are to fit one SM
constexpr int kTilesM = 1;          // 16 columns each, of a warp
constexpr int kTilesN = 2;          // 8 rows each, of a warp
constexpr int kAtOnce = 2;          // tiles of 8 rows whose sums wait for a scale
constexpr int kStages = 4;          // of the ring
constexpr int kUnit = 16;           // bytes of one copy to shared memory
constexpr int kBitsA = 2;           // of a byte's place in a line of A that are exchanged
constexpr int kBaseA = 5;           // the first of them
constexpr int kBitsB = 3;           // the same for B, from bit 4 on
constexpr int kShiftB = 0;          // with bits of the line's number from here on
constexpr int kStoreWidth = 8;      // elements of D stored at once
constexpr int kGroup = 8;           // tiles along n in a band of the rasterization
constexpr int kMmaSums = 4;         // registers of sums of the matrix instruction
constexpr int kMmaA = 4;            // registers of weights
constexpr int kMmaB = 2;            // registers of A
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

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

/// The numbers of two codes (e4m3), each in the high byte of a half. A shift puts exponent and
/// mantissa where A's type has them, and a product puts the exponent's bias right, of denormals
/// too. The largest magnitude is a NaN: one more reaches the sign bit, which is copied to all bits
/// and added as a NaN. Other codes add zero, which makes +0 of -0: a sum of products is the same.
KILN_DEVICE u32 floats_of(u32 codes) {
  const u32 magnitudes = codes & 0x7f007f00;
  const u32 nans = signs_of_halves(magnitudes + 0x01000100);
  return fma_pairs(magnitudes >> 4, masked_bits(codes, 0x80008000, 0x7b807b80), nans);  // 2^120
}

// ---- cuda/weights/pairs.h ----
// Which codes of a word are a pair: of four bits codes i and i + 4, because one mask takes both out
// of the word; of eight bits codes 2i and 2i + 1. Expects decode.h.

/// Pair `i` of a word.
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset&) {
  return floats_of(__byte_perm(codes, 0, i == 0 ? 0x1404 : 0x3424));
}

/// The same pairs of the other operand, whose elements lie side by side: four words of eight, two
/// of four.
KILN_DEVICE void pair_alike(u32 (&x)[kPairs]) {
}

// ---- cuda/weights/scaling.h ----
// Scales and zero points of a lane's columns of op(B): fetched a chunk before they are needed.
// Expects decode.h, convert.h.

constexpr int kLaneColumns = kTilesM * 2;
constexpr int kGroups = kDecodeK / kGroupK;

/// As they come from memory: a conversion would wait for it.
struct Fetched {
  TypeScale scale[kLaneColumns][kGroups];
};

/// As they are used.
struct Factors {
  float scale[kLaneColumns][kGroups];
  Offset offset[kLaneColumns][kGroups];
};

struct Scaling {
  const TypeScale* scales;
  u32 first[kLaneColumns];  // group of each column, of all groups
  int groups;               // of a column

  /// `column0`: the warp's first column. Columns that do not exist repeat the last one.
  static __device__ __forceinline__ Scaling at(const KilnGpuArgs& args, i64 batch, int column0,
                                               int lane) {
    Scaling s;
    s.groups = int(args.k) / kGroupK;
    s.scales = static_cast<const TypeScale*>(args.scale_b);
    _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
      const int column = min(column0 + c * 8 + lane / 4, int(args.n) - 1);
      const int lines = (int(args.n) + kGroupColumns - 1) / kGroupColumns;
      s.first[c] = u32(int(batch) * lines + column / kGroupColumns) * u32(s.groups);
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
      }
    }
  }

  __device__ __forceinline__ Factors factors(const Fetched& from, int chunk) const {
    Factors f;
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        f.scale[c][g] = to_real(from.scale[c][g]);
        f.offset[c][g] = offset_of(0);
      }
    return f;
  }
};
