// device:  sm_90a
// problem: bf16_int4 N T 512 14336 4096 align=16 group=128 gate=silu
// config:  cuda_wgmma_weights tile_m=64 warpgroups=2 block_k=128 stages=4 sharing=tiles splits=1 group=8

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 256;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 64;                  // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 128;             // left rows of each
constexpr int kSums = 32;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kChunk = 32;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kHeld = 16;                       // sums of a thread that are finished together
constexpr int kCopyRegisters = 40;              // of the warps that copy
constexpr int kMultiplyRegisters = 232;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = false;                  // A is copied into the workspace first
constexpr bool kPackB = false;                  // B is copied into the workspace first
constexpr bool kAlongKA = true;                 // A's neighbours run along k
constexpr bool kAlongKB = true;                 // B's neighbours run along k
constexpr bool kSwap = true;                    // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
using TypeScale = float;                        // scales of B
constexpr int kCodeBits = 4;                    // bits of an element of B
constexpr int kGroupK = 128;                    // elements along k that share a scale
constexpr bool kSignedCodes = true;             // codes are two's complement
constexpr int kCodePitch = 64;                  // bytes of a column's codes in a stage
constexpr int kDecodeK = 128;                   // k whose scales are fetched together
constexpr int kTilesM = 2;                      // 16 columns each, of a warp
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31}"
#define KILN_WGMMA_OPERANDS "{%32, %33, %34, %35}, %36, p, 1, 1, 0"
#define KILN_WGMMA_ACCUMULATE "37"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31])
#define KILN_WGMMA_REGISTER "f"
#define KILN_TURN_BRANCHES "turns: .branchtargets t0, t1, t2, t3;\n" \
  "brx.idx %80, turns;\n" \
  "t0: mov.b32 %0, %16; mov.b32 %1, %17; mov.b32 %2, %18; mov.b32 %3, %19; mov.b32 %4, %20; mov.b32 %5, %21; mov.b32 %6, %22; mov.b32 %7, %23; mov.b32 %8, %24; mov.b32 %9, %25; mov.b32 %10, %26; mov.b32 %11, %27; mov.b32 %12, %28; mov.b32 %13, %29; mov.b32 %14, %30; mov.b32 %15, %31;\nbra done;\n" \
  "t1: mov.b32 %0, %32; mov.b32 %1, %33; mov.b32 %2, %34; mov.b32 %3, %35; mov.b32 %4, %36; mov.b32 %5, %37; mov.b32 %6, %38; mov.b32 %7, %39; mov.b32 %8, %40; mov.b32 %9, %41; mov.b32 %10, %42; mov.b32 %11, %43; mov.b32 %12, %44; mov.b32 %13, %45; mov.b32 %14, %46; mov.b32 %15, %47;\nbra done;\n" \
  "t2: mov.b32 %0, %48; mov.b32 %1, %49; mov.b32 %2, %50; mov.b32 %3, %51; mov.b32 %4, %52; mov.b32 %5, %53; mov.b32 %6, %54; mov.b32 %7, %55; mov.b32 %8, %56; mov.b32 %9, %57; mov.b32 %10, %58; mov.b32 %11, %59; mov.b32 %12, %60; mov.b32 %13, %61; mov.b32 %14, %62; mov.b32 %15, %63;\nbra done;\n" \
  "t3: mov.b32 %0, %64; mov.b32 %1, %65; mov.b32 %2, %66; mov.b32 %3, %67; mov.b32 %4, %68; mov.b32 %5, %69; mov.b32 %6, %70; mov.b32 %7, %71; mov.b32 %8, %72; mov.b32 %9, %73; mov.b32 %10, %74; mov.b32 %11, %75; mov.b32 %12, %76; mov.b32 %13, %77; mov.b32 %14, %78; mov.b32 %15, %79;\n"
#define KILN_TURN_TAKEN(d) "=&f"((d)[0]), "=&f"((d)[1]), "=&f"((d)[2]), "=&f"((d)[3]), "=&f"((d)[4]), "=&f"((d)[5]), "=&f"((d)[6]), "=&f"((d)[7]), "=&f"((d)[8]), "=&f"((d)[9]), "=&f"((d)[10]), "=&f"((d)[11]), "=&f"((d)[12]), "=&f"((d)[13]), "=&f"((d)[14]), "=&f"((d)[15])
#define KILN_TURN_SUMS(d) "f"((d)[0][0]), "f"((d)[0][1]), "f"((d)[0][2]), "f"((d)[0][3]), "f"((d)[0][4]), "f"((d)[0][5]), \
  "f"((d)[0][6]), "f"((d)[0][7]), "f"((d)[0][8]), "f"((d)[0][9]), "f"((d)[0][10]), "f"((d)[0][11]), \
  "f"((d)[0][12]), "f"((d)[0][13]), "f"((d)[0][14]), "f"((d)[0][15]), "f"((d)[0][16]), "f"((d)[0][17]), \
  "f"((d)[0][18]), "f"((d)[0][19]), "f"((d)[0][20]), "f"((d)[0][21]), "f"((d)[0][22]), "f"((d)[0][23]), \
  "f"((d)[0][24]), "f"((d)[0][25]), "f"((d)[0][26]), "f"((d)[0][27]), "f"((d)[0][28]), "f"((d)[0][29]), \
  "f"((d)[0][30]), "f"((d)[0][31]), "f"((d)[1][0]), "f"((d)[1][1]), "f"((d)[1][2]), "f"((d)[1][3]), \
  "f"((d)[1][4]), "f"((d)[1][5]), "f"((d)[1][6]), "f"((d)[1][7]), "f"((d)[1][8]), "f"((d)[1][9]), \
  "f"((d)[1][10]), "f"((d)[1][11]), "f"((d)[1][12]), "f"((d)[1][13]), "f"((d)[1][14]), "f"((d)[1][15]), \
  "f"((d)[1][16]), "f"((d)[1][17]), "f"((d)[1][18]), "f"((d)[1][19]), "f"((d)[1][20]), "f"((d)[1][21]), \
  "f"((d)[1][22]), "f"((d)[1][23]), "f"((d)[1][24]), "f"((d)[1][25]), "f"((d)[1][26]), "f"((d)[1][27]), \
  "f"((d)[1][28]), "f"((d)[1][29]), "f"((d)[1][30]), "f"((d)[1][31])
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/wgmma_weights/multiply.cu ----
// A times weights of four or eight bits by the instruction of a warpgroup. The weights are the left
// operand, from registers, so that D is computed transposed; A's rows are the right one, from
// shared memory. A stage holds codes as they are stored and A's lines of 64 k. While one warpgroup
// turns codes into numbers, the tensor cores multiply another's. The sum of a group starts anew, is
// scaled in fp32 and added. Expects fragment.h, scaling.h, wgmma.h, consumer.h, tile_scheduler.h.

constexpr int kSteps = kDepth / 16;  // instructions of a stage
constexpr int kChain = kGroupK / 16;  // of them that add up before their sums are read
constexpr int kFlight = kChain < 4 ? kChain : 4;  // on their way at once, each with its own words

// A warpgroup has 64 columns of B of either factor, under the same columns of D.
constexpr int kColumns = kLeftTile / 2;        // of D in a tile
constexpr int kFactorBytes = 64 * kCodePitch;  // of a stage's codes

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  return TileScheduler::start(
      (int(args.n) + kColumns - 1) / kColumns,
      (int(args.m) + kRightTile - 1) / kRightTile,
      (int(args.k) + kDepth - 1) / kDepth,
      int(args.batch), rank);
}

/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler, const KilnTensorMap* left,
                          const KilnTensorMap* right) {
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  for (; more; more = scheduler.take(work))
  for (int i = 0; i < work.count; ++i) {
    mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
    const u32 barrier = shared.full + turn.stage * 8;
    const u32 to = shared.ring + turn.stage * kStageBytes;
    const int stage = work.begin + i;
    mbarrier_expect(barrier, kStageBytes);
    // The map counts factors as batches.
    _Pragma("unroll") for (int unit = 0; unit < 2 * kWarpgroups; ++unit)
      tma_load_3d(to + unit * kFactorBytes, left, barrier, stage * kCodePitch,
                  work.left * kColumns + unit / 2 * 64, work.batch * 2 + unit % 2, kLeftHint);
    _Pragma("unroll") for (int line = 0; line < kDepth / 64; ++line)
      tma_load_3d(to + kLeftBytes + line * kRightTile * 128, right, barrier,
                  stage * kDepth + line * 64, work.right * kRightTile, work.batch, kRightHint);
    turn.step();
  }
}

/// Scales and zero points of a lane's two columns of either factor in a tile.
struct TileScales {
  Scaling scaling;
  int begin;  // first stage of the work

  static __device__ __forceinline__ TileScales of(const KilnGpuArgs& args, const Work& work,
                                                  u32 row_offset, int thread) {
    const int column0 = work.left * kColumns + int(row_offset) / 2 + thread / 32 * 16;
    return {Scaling::at(args, work.batch, column0, thread % 32), work.begin};
  }
};

KILN_DEVICE void pin_factor(Acc (&sums)[kSums]) {
  _Pragma("unroll") for (int r = 0; r < kSums; ++r) pin(sums[r]);
}

/// The products of one stage, group by group, scaled and added.
/// Of factor `f`.
KILN_DEVICE void multiply_stage(
    Acc (&sums)[kSums],
    const CodeLane& mine, u32 stage, u64 right,
    const Factors& factors,
    int f
) {
  Acc part[kSums];
  Codes codes[2];
  u32 words[kFlight][4];
  mine.fetch(codes[0], stage, 0);
  _Pragma("unroll") for (int step = 0; step < kSteps; ++step) {
    const int read = step / kReadSteps;
    // The next codes come while these are decoded.
    if (step % kReadSteps == 0 && step + kReadSteps < kSteps)
      mine.fetch(codes[(read + 1) % 2], stage, read + 1);
    const int group = step / kChain, before = step % kChain;
    // The instruction that took these words has ended.
    if (step % kChain >= kFlight) wgmma_wait<kFlight - 1>();
    u32(&left)[4] = words[step % kFlight];
    mine.decode(left, codes[read % 2], step % kReadSteps, factors.offset[f * 2][group],
                factors.offset[f * 2 + 1][group]);
    if (step % kChain == 0) pin_factor(part);
    wgmma_fence();
    wgmma_m64(part, left, right + ((step / 4 * kRightTile * 128 + step % 4 * 32) >> 4), before);
    wgmma_commit();
    if (step % kChain != kChain - 1) continue;
    wgmma_wait<0>();
    pin_factor(part);
    _Pragma("unroll") for (int r = 0; r < kSums; ++r)
      sums[r] += factors.scale[f * 2 + r / 2 % 2][group] * part[r];
  }
}

/// The products of `count` stages.
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                          int count, u32 row_offset, int, int lane, const TileScales& scales) {
  const CodeLane mine = CodeLane::of(row_offset, int(threadIdx.x) & 127);
  const u64 right0 = descriptor(kAlongK, shared.ring + kLeftBytes);
  Fetched fetched;
  int chunk = scales.begin;
  scales.scaling.fetch(fetched, chunk);
  _Pragma("unroll") for (int f = 0; f < 2; ++f)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[f][r] = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    const Factors factors = scales.scaling.factors(fetched, chunk);
    scales.scaling.fetch(fetched, ++chunk);
    const u32 stage = shared.ring + turn.stage * kStageBytes;
    const u64 right = right0 + u64(turn.stage) * (kStageBytes >> 4);
    _Pragma("unroll") for (int f = 0; f < 2; ++f)
    multiply_stage(sums[f], mine, stage + f * kFactorBytes, right, factors, f);
    release(shared.empty + turn.stage * 8, lane);
    turn.step();
  }
}
