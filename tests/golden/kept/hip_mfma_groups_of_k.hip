// device:  gfx950
// problem: bf16 T N 7168 2048 32768 groups=32 grouped=k align=16
// config:  hip_mfma rows=16 k=32 tile_m=256 tile_n=256 depth=128 waves_m=2 waves_n=4 staging=direct banks=by_row splits=1 chunk=64 group=4 priority=0 fence=0 pace=pingpong turn=1

// ---- parameters ----
using TypeA = Bfloat;                 // elements of A
using TypeB = Bfloat;                 // elements of B
using TypeD = Bfloat;                 // elements of C and D
using Acc = float;                    // accumulators
using Real = float;                   // what the epilogue computes in
using FragmentA = Vector<__bf16, 8>;  // a lane's part of the instruction's first operand: of B
using FragmentB = Vector<__bf16, 8>;  // and of its second one: of A
using Four = Vector<u16, 4>;          // four elements of D
constexpr int kTileM = 256;           // rows of D in a block's tile
constexpr int kTileN = 256;           // columns of it
constexpr int kTileK = 64;            // k of one stage
constexpr int kElement = 2;           // bytes of an element of A and B
constexpr int kDepthBytes = 128;      // of a row in one stage
constexpr int kRowBytes = 128;        // from row to row in shared memory
constexpr int kSwizzleShift = 0;      // bits of the row that the swizzle leaves out
constexpr int kWavesM = 2;            // waves along m
constexpr int kWavesN = 4;            // waves along n
constexpr int kThreads = 512;         // of a block
constexpr int kWavesPerUnit = 2;      // waves of a block that share a SIMD
constexpr int kRows = 16;             // rows and columns of one instruction
constexpr int kSums = 4;              // accumulators of a lane, for one instruction
constexpr int kStages = 2;            // in shared memory
constexpr int kSharedBytes = 131072;  // of all stages
constexpr int kDirectBytes = 16;      // of a lane's load into shared memory
constexpr int kParts = 1;             // of a step
constexpr int kGroup = 4;             // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;            // parts that k is divided into
constexpr int kChiplets = 8;          // that blocks are dealt to in turn
constexpr int kChunk = 64;            // neighbouring blocks that one chiplet gets
constexpr bool kAlongA = false;       // A's rows lie along k
constexpr bool kAlongB = false;       // B's rows lie along k
#define KILN_MFMA mfma_16x16x32_bf16
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_f32_16x16x32_bf16

// ---- hip/common/groups.h ----
// A grouped problem's groups: which part of k each has. The list of them lies in the device's
// memory. Groups have equal numbers of tiles, as batches do. Expects abi.h.

struct GroupK {
  i64 first, count;
};

/// What the list may not say becomes the nearest that it may. A group begins behind all groups
/// before it: where the list falls, it is empty.
KILN_DEVICE GroupK part_of_group(const KilnGpuArgs& args, i64 group) {
  const i32* list = static_cast<const i32*>(args.groups);
  i64 first = 0, end = 0;
  for (i64 which = 0; which <= group; ++which) {
    first = end;
    const i64 listed = list[which] > args.k ? args.k : list[which];
    if (listed > end) end = listed;
  }
  return {first, end - first};
}

// ---- hip/mfma/kernel.hip ----
// The kernel itself. Expects mfma.hip, mainloop.h, store.h and, with split-K, combine.h, with groups
// groups.h.

KILN_KERNEL(kThreads, kWavesPerUnit) kiln_gemm(KilnGpuArgs args) {
  const u32 thread = thread_index(), wave = uniform(thread / 64), lane = thread % 64;
  const u32 wave_m = wave / kWavesN * kWaveM, wave_n = wave % kWavesN * kWaveN;
  Work work = work_of(args, block_index());
  const GroupK own = part_of_group(args, work.batch);
  args = args_of_group(args, work.batch, own.first, own.count, kAlongA ? 1 : args.lda,
                       kAlongB ? 1 : args.ldb);
  work.k_end = own.count;
  const i64 row = i64(work.tile_m) * kTileM, column = i64(work.tile_n) * kTileN;
  const SourceA a = SourceA::start(static_cast<const TypeA*>(args.a) + work.batch * args.stride_a,
                                   args.lda, row, args.m, work.k_begin, work.k_end);
  const SourceB b = SourceB::start(static_cast<const TypeB*>(args.b) + work.batch * args.stride_b,
                                   args.ldb, column, args.n, work.k_begin, work.k_end);
  Tile sums;
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) KILN_UNROLL for (int j = 0; j < kBlocksN; ++j)
      sums[i][j] = Sums(Acc(0));
  multiply_all(sums, a, b, thread, {wave_m + lane % kRows, wave_n + lane % kRows, lane / kRows});
  store_tile(sums, work, args, row + wave_m, column + wave_n, int(lane));
}
