// device:  sm_90a
// problem: bf16_int4 N T 4096 4096 7168 groups=32 grouped=rows align=16 group=128
// config:  cuda_wgmma_weights tile_m=128 warpgroups=2 block_k=128 stages=3 sharing=tiles splits=1 group=8

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 3;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kGroupRows = 128;                 // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;                 // room in the tables of groups
constexpr int kChunk = 64;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
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
constexpr int kTilesM = 1;                      // 16 columns each, of a warp
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63}"
#define KILN_WGMMA_OPERANDS "{%64, %65, %66, %67}, %68, p, 1, 1, 0"
#define KILN_WGMMA_ACCUMULATE "69"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63])
#define KILN_WGMMA_REGISTER "f"
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

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  return TileScheduler::start(
      (int(args.n) + kLeftTile - 1) / kLeftTile,
      (int(args.m) + kRightTile - 1) / kRightTile,
      (int(args.k) + kDepth - 1) / kDepth,
      int(args.batch), rank);
}

/// Tiles across the columns of D.
KILN_DEVICE int tiles_across(const KilnGpuArgs& args) {
  return (int(args.n) + kLeftTile - 1) / kLeftTile;
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
    tma_load_3d(to, left, barrier, stage * kCodePitch, work.left * kLeftTile, work.batch,
                kLeftHint);
    _Pragma("unroll") for (int line = 0; line < kDepth / 64; ++line)
      // Rows of the matrix that all groups share; those of the next group are not stored.
      tma_load_3d(to + kLeftBytes + line * kRightTile * 128, right, barrier,
                  stage * kDepth + line * 64, work.first_row + work.right * kRightTile, 0,
                  kRightHint);
    turn.step();
  }
}

/// Scales and zero points of a lane's two columns in a tile.
struct TileScales {
  Scaling scaling;
  int begin;  // first stage of the work

  static __device__ __forceinline__ TileScales of(const KilnGpuArgs& args, const Work& work,
                                                  u32 row_offset, int thread) {
    const int column0 = work.left * kLeftTile + int(row_offset) + thread / 32 * 16;
    return {Scaling::at(args, work.batch, column0, thread % 32), work.begin};
  }
};

/// The products of one stage, group by group, scaled and added.
KILN_DEVICE void multiply_stage(
    Acc (&sums)[kSubtiles][kSums],
    const CodeLane& mine, u32 stage, u64 right,
    const Factors& factors
) {
  Acc part[kSubtiles][kSums];
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
    mine.decode(left, codes[read % 2], step % kReadSteps, factors.offset[0][group],
                factors.offset[1][group]);
    if (step % kChain == 0) pin_all(part);
    wgmma_fence();
    wgmma_m64(part[0], left, right + ((step / 4 * kRightTile * 128 + step % 4 * 32) >> 4), before);
    wgmma_commit();
    if (step % kChain != kChain - 1) continue;
    wgmma_wait<0>();
    pin_all(part);
    _Pragma("unroll") for (int r = 0; r < kSums; ++r)
      sums[0][r] += factors.scale[r / 2 % 2][group] * part[0][r];
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
  _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[0][r] = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    const Factors factors = scales.scaling.factors(fetched, chunk);
    scales.scaling.fetch(fetched, ++chunk);
    const u32 stage = shared.ring + turn.stage * kStageBytes;
    const u64 right = right0 + u64(turn.stage) * (kStageBytes >> 4);
    multiply_stage(sums, mine, stage, right, factors);
    release(shared.empty + turn.stage * 8, lane);
    turn.step();
  }
}
