// Tiles of D by matrix instructions on operands of microscaled blocks, which may be of different
// widths. A block's waves share a tile in shared memory; each computes kBlocksM × kBlocksN
// instructions' worth of it. The product is computed transposed (B's rows are the instruction's
// rows), so that a lane's accumulators lie side by side in a row of D. Expects abi.h, types.h,
// device.h, memory.h, convert.h, epilogue.h, mx.h, mx_stage.h, schedule.h.

constexpr int kWaveM = kTileM / kWavesM, kWaveN = kTileN / kWavesN;
constexpr int kBlocksM = kWaveM / kRows, kBlocksN = kWaveN / kRows;

using OperandA = Operand<kTileM, kBitsA, kWidthA>;
using OperandB = Operand<kTileN, kBitsB, kWidthB>;
constexpr u32 kBytesA = kTileM * OperandA::kPitch;
constexpr u32 kStageBytes = kBytesA + kTileN * OperandB::kPitch;
static_assert(kStages * kStageBytes == kSharedBytes, "the plan and the code agree");

using Tile = Sums[kBlocksM][kBlocksN];

/// Where a lane looks: its row in either operand's tile, and its number among those that share it.
struct Place {
  u32 row_a, row_b, group;
};

/// Scales of one stage on their way, and how far along k they have been read.
struct ScaleSource {
  const u8 *a, *b;
  u32 pitch, rows_a, rows_b;  // pitch: bytes of a row of either, k / 32
  i32 left;

  static KILN_MEMBER ScaleSource start(const KilnGpuArgs& args, const Work& work, i64 row,
                                       i64 column) {
    ScaleSource s;
    const i64 blocks = args.k / 32, first = work.k_begin / 32;
    s.a = static_cast<const u8*>(args.scale_a) + (work.batch * args.m + row) * blocks + first;
    s.b = static_cast<const u8*>(args.scale_b) + (work.batch * args.n + column) * blocks + first;
    s.pitch = u32(blocks);
    s.rows_a = u32(args.m - row < kTileM ? args.m - row : kTileM);
    s.rows_b = u32(args.n - column < kTileN ? args.n - column : kTileN);
    s.left = i32((work.k_end - work.k_begin) / 32);
    return s;
  }
};

struct StageScales {
  Scales<kBlocksM> a;
  Scales<kBlocksN> b;
  KILN_MEMBER void load(ScaleSource& from, const Place& at) {
    a.load(from.a, from.pitch, from.rows_a, at.row_a, from.left);
    b.load(from.b, from.pitch, from.rows_b, at.row_b, from.left);
    from.a += kBlocksOfStage;
    from.b += kBlocksOfStage;
    from.left -= kBlocksOfStage;
  }
};

/// The next stage's codes on their way through registers.
struct Next {
  U32x4 a[OperandA::kCount], b[OperandB::kCount];
  KILN_MEMBER void load(OperandA& from_a, OperandB& from_b, u32 thread) {
    from_a.load(a, thread);
    from_b.load(b, thread);
  }
  KILN_MEMBER void store(u32 to, u32 thread) const {
    OperandA::store(a, to, thread);
    OperandB::store(b, to + kBytesA, thread);
  }
};

/// Adds the products of one stage from step `Step` on: which byte of the scales is meant must be a
/// constant.
template <int Step = 0>
KILN_DEVICE void multiply(Tile& sums, u32 stage, const u32 (&scale_a)[kBlocksM],
                          const u32 (&scale_b)[kBlocksN], const Place& at) {
  Codes b[kBlocksN];
  KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) b[j] =
      OperandB::read(stage + kBytesA, at.row_b + j * kRows, Step, at.group);
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) {
    const Codes a = OperandA::read(stage, at.row_a + i * kRows, Step, at.group);
    KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) sums[i][j] =
        KILN_MFMA<Step>(b[j], a, sums[i][j], scale_b[j], scale_a[i]);
  }
  if constexpr (Step + 1 < kSteps) multiply<Step + 1>(sums, stage, scale_a, scale_b, at);
}

/// One stage with its scales; those of the next, if there is one, are on their way meanwhile.
KILN_DEVICE void multiply_stage(Tile& sums, u32 stage, StageScales& scales, ScaleSource& from,
                                bool more, const Place& at) {
  u32 of_a[kBlocksM], of_b[kBlocksN];
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) of_a[i] = scales.a.of_steps(i, at.group);
  KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) of_b[j] = scales.b.of_steps(j, at.group);
  if (more) scales.load(from, at);
  multiply(sums, stage, of_a, of_b, at);
}

/// All of this block's k: `count` stages.
KILN_DEVICE void multiply_all(Tile& sums, OperandA a, OperandB b, ScaleSource from, i32 count,
                              u32 thread, const Place& at) {
  if (count <= 0) return;
  Next next;
  StageScales scales;
  next.load(a, b, thread);
  scales.load(from, at);
  //% if pipeline == single
  for (i32 i = 1;; ++i) {
    next.store(0, thread);
    block_barrier();
    if (i < count) next.load(a, b, thread);
    multiply_stage(sums, 0, scales, from, i < count, at);
    if (i == count) return;  // the stage is not written again
    block_barrier();
  }
  //% else
  next.store(0, thread);
  if (count > 1) next.load(a, b, thread);
  u32 stage = 0;
  for (i32 i = 1;; ++i) {
    // What was stored is there for all, and nobody reads the other stage any more.
    block_barrier();
    if (i < count) next.store(kStageBytes - stage, thread);
    if (i + 1 < count) next.load(a, b, thread);
    multiply_stage(sums, stage, scales, from, i < count, at);
    if (i == count) return;
    stage = kStageBytes - stage;
  }
  //% end
}
