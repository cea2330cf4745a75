// device:  gfx90a
// problem: fp64 N N 512 512 512
// config:  hip_mfma rows=16 k=4 tile_m=64 tile_n=64 depth=64 waves_m=2 waves_n=2 staging=twice banks=by_pair splits=1 chunk=0 group=8 priority=0 fence=0 pace=free turn=0

// ---- parameters ----
using TypeA = double;                // elements of A
using TypeB = double;                // elements of B
using TypeD = double;                // elements of C and D
using Acc = double;                  // accumulators
using Real = double;                 // what the epilogue computes in
using FragmentA = double;            // a lane's part of the instruction's first operand: of B
using FragmentB = double;            // and of its second one: of A
constexpr int kTileM = 64;           // rows of D in a block's tile
constexpr int kTileN = 64;           // columns of it
constexpr int kTileK = 8;            // k of one stage
constexpr int kElement = 8;          // bytes of an element of A and B
constexpr int kDepthBytes = 64;      // of a row in one stage
constexpr int kRowBytes = 64;        // from row to row in shared memory
constexpr int kSwizzleShift = 1;     // bits of the row that the swizzle leaves out
constexpr int kWavesM = 2;           // waves along m
constexpr int kWavesN = 2;           // waves along n
constexpr int kThreads = 256;        // of a block
constexpr int kWavesPerUnit = 1;     // waves of a block that share a SIMD
constexpr int kRows = 16;            // rows and columns of one instruction
constexpr int kSums = 4;             // accumulators of a lane, for one instruction
constexpr int kStages = 2;           // in shared memory
constexpr int kSharedBytes = 16384;  // of all stages
constexpr int kWidthA = 16;          // bytes of a load of A
constexpr int kWidthB = 8;           // bytes of a load of B
constexpr int kGroup = 8;            // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;           // parts that k is divided into
constexpr bool kAlongA = true;       // A's rows lie along k
constexpr bool kAlongB = false;      // B's rows lie along k
#define KILN_MFMA mfma_16x16x4_fp64
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_f64_16x16x4f64

// ---- hip/mfma/stage.h ----
// From memory to shared memory: a tile's rows of one operand, kDepthBytes of k each, in units of 16
// bytes along k. Where in a row a unit lies is swizzled, so that lanes that read one column of
// units meet different banks. Expects device.h.

constexpr int kUnits = kDepthBytes / 16;  // of one row

KILN_DEVICE u32 unit_address(u32 row, u32 unit) {
  return row * kRowBytes + (unit ^ (row >> kSwizzleShift) % kUnits) * 16;
}

/// A k-major operand, read Width bytes at a time.
template <int Rows, int Width>
struct AlongK {
  static constexpr int kCount = Rows * kUnits / kThreads;                 // units of a thread
  static constexpr int kLoads = kCount * (16 / Width), kStores = kCount;  // instructions
  static_assert(Rows * kUnits % kThreads == 0, "threads share a tile's units evenly");
  U32x4 unit[kCount];

  static KILN_MEMBER u32 offset_of(u32 slot, u32 pitch) {
    return slot / kUnits * pitch + slot % kUnits * 16;
  }

  KILN_MEMBER void load(Buffer from, u32 pitch, u32 thread, [[maybe_unused]] i32 k_left) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads;
      u32 words[4] = {0, 0, 0, 0};
      KILN_UNROLL for (int p = 0; p < 16; p += Width) {
        u32 offset = offset_of(slot, pitch) + p;
        u32 piece[(Width + 3) / 4];
        buffer_load<Width>(piece, from, offset);
        KILN_UNROLL for (int w = 0; w < (Width + 3) / 4; ++w) words[p / 4 + w] |= piece[w]
                                                                                  << (p % 4 * 8);
      }
      KILN_UNROLL for (int w = 0; w < 4; ++w) unit[i][w] = words[w];
    }
  }
  KILN_MEMBER void store(u32 to, u32 thread) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads;
      ds_write_b128(to + unit_address(slot / kUnits, slot % kUnits), unit[i]);
    }
  }
};

/// Stored elements as plain numbers, so that they can be moved about.
using Raw = u64;
constexpr int kPerUnit = 16 / kElement;  // of them

/// An operand whose rows are neighbours in memory: each thread takes Width bytes of rows for the k
/// of one unit, and transposes them in its registers.
template <int Rows, int Width>
struct AcrossK {
  static constexpr int kVector = Width / kElement;  // rows
  static constexpr int kGroups = Rows / kVector;
  static constexpr int kCount = kGroups * kUnits / kThreads;
  static constexpr int kLoads = kCount * kPerUnit, kStores = kCount * kVector;  // instructions
  static_assert(kGroups * kUnits % kThreads == 0, "threads share a tile's rows evenly");
  static constexpr int kWords = (Width + 3) / 4;
  u32 words[kCount][kPerUnit][kWords];

  KILN_MEMBER void load(Buffer from, u32 pitch, u32 thread, i32) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, rows = slot % kGroups, k = slot / kGroups * kPerUnit;
      KILN_UNROLL for (int e = 0; e < kPerUnit; ++e)
          buffer_load<Width>(words[i][e], from, (k + e) * pitch + rows * Width);
    }
  }
  KILN_MEMBER void store(u32 to, u32 thread) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, rows = slot % kGroups, unit = slot / kGroups;
      KILN_UNROLL for (int v = 0; v < kVector; ++v) {
        Raw column[kPerUnit];
        KILN_UNROLL for (int e = 0; e < kPerUnit; ++e) column[e] = element(words[i][e], v);
        ds_write_b128(to + unit_address(rows * kVector + v, unit), bits_as<U32x4>(column));
      }
    }
  }

 private:
  static KILN_MEMBER Raw element(const u32 (&line)[kWords], int v) {
    if constexpr (kElement == 8)
      return u64(line[2 * v]) | u64(line[2 * v + 1]) << 32;
    else
      return Raw(line[v * kElement / 4] >> (v * kElement % 4 * 8));
  }
};
