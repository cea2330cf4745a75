// device:  sm_90a
// problem: bf16_int8 N T 512 4096 4096 align=16 group=k
// config:  cuda_wgmma_weights tile_m=256 warpgroups=2 block_k=64 stages=4 sharing=tiles splits=1 group=8

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 256;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 128;                      // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
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
constexpr int kCodeBits = 8;                    // bits of an element of B
constexpr bool kSignedCodes = true;             // codes are two's complement
constexpr int kCodePitch = 64;                  // bytes of a column's codes in a stage
constexpr int kDecodeK = 64;                    // k whose scales are fetched together
constexpr int kTilesM = 1;                      // 16 columns each, of a warp
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127}"
#define KILN_WGMMA_OPERANDS "{%128, %129, %130, %131}, %132, p, 1, 1, 0"
#define KILN_WGMMA_ACCUMULATE "133"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63]), \
  "+f"((d)[64]), "+f"((d)[65]), "+f"((d)[66]), "+f"((d)[67]), "+f"((d)[68]), "+f"((d)[69]), "+f"((d)[70]), "+f"((d)[71]), \
  "+f"((d)[72]), "+f"((d)[73]), "+f"((d)[74]), "+f"((d)[75]), "+f"((d)[76]), "+f"((d)[77]), "+f"((d)[78]), "+f"((d)[79]), \
  "+f"((d)[80]), "+f"((d)[81]), "+f"((d)[82]), "+f"((d)[83]), "+f"((d)[84]), "+f"((d)[85]), "+f"((d)[86]), "+f"((d)[87]), \
  "+f"((d)[88]), "+f"((d)[89]), "+f"((d)[90]), "+f"((d)[91]), "+f"((d)[92]), "+f"((d)[93]), "+f"((d)[94]), "+f"((d)[95]), \
  "+f"((d)[96]), "+f"((d)[97]), "+f"((d)[98]), "+f"((d)[99]), "+f"((d)[100]), "+f"((d)[101]), "+f"((d)[102]), "+f"((d)[103]), \
  "+f"((d)[104]), "+f"((d)[105]), "+f"((d)[106]), "+f"((d)[107]), "+f"((d)[108]), "+f"((d)[109]), "+f"((d)[110]), "+f"((d)[111]), \
  "+f"((d)[112]), "+f"((d)[113]), "+f"((d)[114]), "+f"((d)[115]), "+f"((d)[116]), "+f"((d)[117]), "+f"((d)[118]), "+f"((d)[119]), \
  "+f"((d)[120]), "+f"((d)[121]), "+f"((d)[122]), "+f"((d)[123]), "+f"((d)[124]), "+f"((d)[125]), "+f"((d)[126]), "+f"((d)[127])
#define KILN_WGMMA_REGISTER "f"
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/wgmma_weights/fragment.h ----
// Codes in shared memory to words of the left operand, in k's own order. A lane's word of a step of
// 16 k holds elements 2q and 2q + 1 of eight, q being its place in a quad: of four bits byte q of a
// word of codes, of eight bits two neighbours of two words. So a quad reads the same 16 bytes and
// each lane takes its part, without a shuffle. Expects decode.h, swizzle.h, registers_ptx.h,
// read_ptx.h.

constexpr int kStepWords = 8 / kPairs;      // of codes, of a row in one step
constexpr int kReadSteps = 4 / kStepWords;  // that 16 bytes of codes are

/// 16 bytes of either row of a lane.
using Codes = u32[2][4];

/// Two neighbouring codes, which `selector` takes out of `low` and `high`, as numbers.
KILN_DEVICE u32 neighbours(u32 low, u32 high, u32 selector, const Offset& offset) {
  const u32 taken = __byte_perm(low, high, selector);
  // Seven bits fit behind the exponent; the sign, which counts -128, is the difference of 128 and
  // 256.
  const u32 number = fma_pairs(masked_bits(taken, 0x007f007f, 0x43004300), kOnes,
                               masked_bits(taken, 0x00800080, 0xc300c300));
  return number;
}

/// Where a lane's codes lie in a stage, as the copy engine swizzled them, and which it takes.
struct CodeLane {
  u32 line, turn;  // byte of the first row; what exchanges the row's units of 16 bytes
  u32 selector;

  static __device__ __forceinline__ CodeLane of(u32 row_offset, int thread) {
    const int row = int(row_offset) + thread / 32 * 16 + thread % 32 / 4;
    const u32 place = u32(thread) % 4;
    CodeLane lane;
    lane.line = u32(row * kCodePitch);
    lane.turn = swizzled_byte(row, 0, kCodePitch) - lane.line;
    lane.selector = place * 2 | (place * 2 + 1) << 8;
    return lane;
  }

  /// Read `read` of a stage. Eight rows on the units are exchanged alike.
  __device__ __forceinline__ void fetch(Codes& to, u32 stage, int read) const {
    _Pragma("unroll") for (int half = 0; half < 2; ++half)
      load_shared_words(to[half],
                        stage + line + u32(half * 8 * kCodePitch) + (turn ^ u32(read * 16)));
  }

  /// The words of step `step` of those that the codes are.
  __device__ __forceinline__ void decode(u32 (&to)[4], const Codes& codes, int step,
                                         const Offset& first, const Offset& second) const {
    _Pragma("unroll") for (int i = 0; i < 4; ++i) {
      const u32* word = codes[i % 2] + (step * 2 + i / 2) * (kStepWords / 2);
      const Offset& offset = i % 2 == 0 ? first : second;
      to[i] = neighbours(word[0], word[1], selector, offset);
      pin_word(to[i]);
    }
  }
};

// ---- cuda/wgmma_weights/multiply.cu ----
// A times weights of four or eight bits by the instruction of a warpgroup. The weights are the left
// operand, from registers, so that D is computed transposed; A's rows are the right one, from
// shared memory. A stage holds codes as they are stored and A's lines of 64 k. While one warpgroup
// turns codes into numbers, the tensor cores multiply another's. The sum of a group starts anew, is
// scaled in fp32 and added. Expects fragment.h, scaling.h, wgmma.h, consumer.h, tile_scheduler.h.

constexpr int kSteps = kDepth / 16;  // instructions of a stage
constexpr int kChain = kSteps;  // of them that add up before their sums are read
constexpr int kFlight = kChain < 4 ? kChain : 4;  // on their way at once, each with its own words

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  return TileScheduler::start(
      (int(args.n) + kLeftTile - 1) / kLeftTile,
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
    tma_load_3d(to, left, barrier, stage * kCodePitch, work.left * kLeftTile, work.batch,
                kLeftHint);
    _Pragma("unroll") for (int line = 0; line < kDepth / 64; ++line)
      tma_load_3d(to + kLeftBytes + line * kRightTile * 128, right, barrier,
                  stage * kDepth + line * 64, work.right * kRightTile, work.batch, kRightHint);
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

/// The instructions of one stage; `accumulate` 0 lets its first step start anew.
KILN_DEVICE void multiply_stage(
    Acc (&sums)[kSubtiles][kSums],
    const CodeLane& mine, u32 stage, u64 right,
    const Factors& factors,
    int accumulate
) {
  Acc(&part)[kSubtiles][kSums] = sums;
  Codes codes[2];
  u32 words[kFlight][4];
  mine.fetch(codes[0], stage, 0);
  _Pragma("unroll") for (int step = 0; step < kSteps; ++step) {
    const int read = step / kReadSteps;
    // The next codes come while these are decoded.
    if (step % kReadSteps == 0 && step + kReadSteps < kSteps)
      mine.fetch(codes[(read + 1) % 2], stage, read + 1);
    const int group = 0, before = accumulate | step;
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
  }
}

/// The products of `count` stages.
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                          int count, u32 row_offset, int, int lane, const TileScales& scales) {
  const CodeLane mine = CodeLane::of(row_offset, int(threadIdx.x) & 127);
  const u64 right0 = descriptor(kAlongK, shared.ring + kLeftBytes);
  Fetched fetched;
  scales.scaling.fetch(fetched, 0);
  const Factors factors = scales.scaling.factors(fetched, 0);
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    const u32 stage = shared.ring + turn.stage * kStageBytes;
    const u64 right = right0 + u64(turn.stage) * (kStageBytes >> 4);
    multiply_stage(sums, mine, stage, right, factors, i);
    release(shared.empty + turn.stage * 8, lane);
    turn.step();
  }
  _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[0][r] *= factors.scale[r / 2 % 2][0];
}
