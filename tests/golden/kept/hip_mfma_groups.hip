// device:  gfx942
// problem: bf16 N T 8192 4096 7168 groups=8 grouped=rows align=16
// config:  hip_mfma rows=16 k=16 tile_m=128 tile_n=64 depth=128 waves_m=2 waves_n=2 staging=single banks=by_row splits=1 chunk=16 group=4 priority=0 fence=0 pace=interleaved turn=0

// ---- parameters ----
using TypeA = Bfloat;                // elements of A
using TypeB = Bfloat;                // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = float;                   // accumulators
using Real = float;                  // what the epilogue computes in
using FragmentA = Vector<i16, 4>;    // a lane's part of the instruction's first operand: of B
using FragmentB = Vector<i16, 4>;    // and of its second one: of A
using Four = Vector<u16, 4>;         // four elements of D
constexpr int kTileM = 128;          // rows of D in a block's tile
constexpr int kTileN = 64;           // columns of it
constexpr int kTileK = 64;           // k of one stage
constexpr int kElement = 2;          // bytes of an element of A and B
constexpr int kDepthBytes = 128;     // of a row in one stage
constexpr int kRowBytes = 128;       // from row to row in shared memory
constexpr int kSwizzleShift = 0;     // bits of the row that the swizzle leaves out
constexpr int kWavesM = 2;           // waves along m
constexpr int kWavesN = 2;           // waves along n
constexpr int kThreads = 256;        // of a block
constexpr int kWavesPerUnit = 1;     // waves of a block that share a SIMD
constexpr int kRows = 16;            // rows and columns of one instruction
constexpr int kSums = 4;             // accumulators of a lane, for one instruction
constexpr int kStages = 1;           // in shared memory
constexpr int kSharedBytes = 24576;  // of all stages
constexpr int kWidthA = 16;          // bytes of a load of A
constexpr int kWidthB = 16;          // bytes of a load of B
constexpr int kReads = 6;            // of shared memory by a lane in one step
constexpr int kGroup = 4;            // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;           // parts that k is divided into
constexpr int kChiplets = 8;         // that blocks are dealt to in turn
constexpr int kChunk = 16;           // neighbouring blocks that one chiplet gets
constexpr bool kAlongA = true;       // A's rows lie along k
constexpr bool kAlongB = true;       // B's rows lie along k
#define KILN_MFMA mfma_16x16x16_bf16
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_f32_16x16x16bf16_1k

// ---- hip/common/groups.h ----
// A grouped problem's groups: which of their tiles a block has. The list lies in the device's
// memory; blocks are not persistent, and each walks it by itself, a few cycles a group. Expects
// abi.h.

/// A block's place: `block` of its group's own tiles.
struct GroupBlock {
  i64 group, first_row, rows;  // rows 0: there is no tile left for it
  u32 block;
};

/// `across` tiles lie beside one another, and a group's rows are tiles of kTileM.
KILN_DEVICE GroupBlock group_of(const KilnGpuArgs& args, u32 block, u32 across) {
  const i32* list = static_cast<const i32*>(args.groups);
  i64 before = 0;  // rows of all groups so far: where the list falls, a group has none
  for (i64 group = 0; group < args.batch; ++group) {
    const i64 listed = list[group];
    const i64 end = listed < 0 ? 0 : listed > args.m ? args.m : listed;
    const i64 first = before;
    if (end <= first) continue;
    before = end;
    const u32 tiles = u32(ceil_div(end - first, kTileM)) * across;
    if (block < tiles) return {group, first, end - first, block};
    block -= tiles;
  }
  return {0, 0, 0, 0};
}

// ---- hip/mfma/kernel.hip ----
// The kernel itself. Expects mfma.hip, mainloop.h, store.h and, with split-K, combine.h, with groups
// groups.h.

KILN_KERNEL(kThreads, kWavesPerUnit) kiln_gemm(KilnGpuArgs args) {
  const u32 thread = thread_index(), wave = uniform(thread / 64), lane = thread % 64;
  const u32 wave_m = wave / kWavesN * kWaveM, wave_n = wave % kWavesN * kWaveN;
  const GroupBlock own = group_of(args, block_index(), u32(ceil_div(args.n, kTileN)));
  if (own.rows == 0) return;
  args = args_of_group(args, own.group, own.first_row, own.rows, kAlongA ? args.lda : 1);
  Work work = work_of(args, own.block);
  work.batch = own.group;
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
