// device:  gfx942
// problem: fp16 N T 64 96 8192 align=16
// config:  hip_mfma rows=16 k=16 tile_m=64 tile_n=32 depth=128 waves_m=2 waves_n=2 staging=twice banks=by_row splits=8 chunk=0 group=4 priority=0 fence=0 pace=free turn=0

// ---- parameters ----
using TypeA = Half;                     // elements of A
using TypeB = Half;                     // elements of B
using TypeD = Half;                     // elements of C and D
using Acc = float;                      // accumulators
using Real = float;                     // what the epilogue computes in
using FragmentA = Vector<_Float16, 4>;  // a lane's part of the instruction's first operand: of B
using FragmentB = Vector<_Float16, 4>;  // and of its second one: of A
using Four = Vector<u16, 4>;            // four elements of D
constexpr int kTileM = 64;              // rows of D in a block's tile
constexpr int kTileN = 32;              // columns of it
constexpr int kTileK = 64;              // k of one stage
constexpr int kElement = 2;             // bytes of an element of A and B
constexpr int kDepthBytes = 128;        // of a row in one stage
constexpr int kRowBytes = 128;          // from row to row in shared memory
constexpr int kSwizzleShift = 0;        // bits of the row that the swizzle leaves out
constexpr int kWavesM = 2;              // waves along m
constexpr int kWavesN = 2;              // waves along n
constexpr int kThreads = 256;           // of a block
constexpr int kWavesPerUnit = 1;        // waves of a block that share a SIMD
constexpr int kRows = 16;               // rows and columns of one instruction
constexpr int kSums = 4;                // accumulators of a lane, for one instruction
constexpr int kStages = 2;              // in shared memory
constexpr int kSharedBytes = 24576;     // of all stages
constexpr int kWidthA = 16;             // bytes of a load of A
constexpr int kWidthB = 16;             // bytes of a load of B
constexpr int kGroup = 4;               // rows of tiles in a band of the rasterization
constexpr int kSplits = 8;              // parts that k is divided into
constexpr bool kAlongA = true;          // A's rows lie along k
constexpr bool kAlongB = true;          // B's rows lie along k
#define KILN_MFMA mfma_16x16x16_fp16
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_f32_16x16x16f16

// ---- hip/common/combine.h ----
// The reduction of split-K: the block of a tile that comes last adds all partial accumulators in
// the order of k, so that the same call gives the same bits. The workspace holds a counter a tile
// (zero between calls: the last block resets it), then the partial accumulators.

/// True for the block that must finish the tile; its accumulators then hold all of k.
KILN_DEVICE bool combine(Tile& sums, const Work& work, const KilnGpuArgs& args, u32 thread) {
  constexpr i64 kOfThread = i64(kBlocksM) * kBlocksN;
  const i64 counters = (i64(work.tiles) * 4 + 255) / 256 * 256;
  u32* counter = static_cast<u32*>(args.workspace) + work.tile;
  Sums* all = reinterpret_cast<Sums*>(static_cast<u8*>(args.workspace) + counters);
  const auto at = [&](u32 piece, i64 block) -> Sums* {
    return all + ((i64(work.tile) * kSplits + piece) * kOfThread + block) * kThreads + thread;
  };
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) *
      at(work.piece, i * kBlocksN + j) = sums[i][j];
  release_to_device();
  block_barrier();
  // The stages are no longer read: their first word tells all threads who came last.
  if (thread == 0) {
    const u32 before = count_arrival(counter);
    if (before == kSplits - 1) *counter = 0;
    ds_write_b32(0, before);
  }
  block_barrier();
  if (ds_read_b32(0) != kSplits - 1) return false;
  acquire_from_device();
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) {
    Sums sum = *at(0, i * kBlocksN + j);
    for (u32 piece = 1; piece < kSplits; ++piece) sum += *at(piece, i * kBlocksN + j);
    sums[i][j] = sum;
  }
  return true;
}
