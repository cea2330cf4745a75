// device:  sm_90a
// problem: tf32 N N 4096 4096 4096 align=16
// config:  cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=1 cluster_left=1 cluster_right=2 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0

// ---- parameters ----
using TypeA = float;                            // elements of A
using TypeB = float;                            // elements of B
using TypeD = float;                            // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 256;                 // rows of the right operand in it
constexpr int kDepth = 32;                      // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 128;                      // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 2;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kChunk = 32;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kCopyRegisters = 40;              // of the warps that copy
constexpr int kMultiplyRegisters = 232;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = false;                  // A is copied into the workspace first
constexpr bool kPackB = false;                  // B is copied into the workspace first
constexpr bool kAlongKA = true;                 // A's neighbours run along k
constexpr bool kAlongKB = false;                // B's neighbours run along k
constexpr bool kSwap = true;                    // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = true;             // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32"
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
#define KILN_WGMMA_OPERANDS "{%128, %129, %130, %131}, %132, p, 1, 1"
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

// ---- cuda/wgmma/registers.h ----
// The left operand from registers. The instruction reads what lies across k from shared memory for
// 2-byte types alone; words of 4 bytes are fetched by each lane as the instruction wants them and
// handed over in registers. Expects registers_ptx.h.

constexpr int kSteps = 4;           // instructions of a stage, 8 k each
constexpr int kLeftBlockRows = 32;  // rows that lie side by side, 128 bytes

/// One lane's words of the left operand's rows in a stage.
struct LeftWords {
  u32 words[kSteps][kWarpgroupRows / 64][4];
};

/// What one lane fetches of 64 rows and 8 k: rows r and r + 8 of its warp's 16, k t and t + 4. Each
/// of the four fetches takes another of these by the lane's t: then no two lanes of a warp meet in
/// a bank, which with one of them for all lanes every second pair would.
struct LeftLane {
  u32 offsets[4];
  u32 turn;  // t: fetch j brings word j ^ t

  static __device__ __forceinline__ LeftLane of(u32 row_offset, int thread) {
    const u32 warp = u32(thread) / 32, g = u32(thread) % 32 / 4, t = u32(thread) % 4;
    LeftLane lane;
    lane.turn = t;
    _Pragma("unroll") for (u32 j = 0; j < 4; ++j) {
      const u32 word = j ^ t, row = warp * 16 + g + word % 2 * 8, k = t + word / 2 * 4;
      // As the copy engine laid it: 16-byte units of a line exchanged by the line's number.
      lane.offsets[j] = row_offset * 128 + row / kLeftBlockRows * (kDepth * 128) + k * 128 +
                        ((row % kLeftBlockRows / 4) ^ k) * 16 + row % 4 * 4;
    }
    return lane;
  }

  /// A stage's words as they are fetched.
  __device__ __forceinline__ void fetch(LeftWords& to, u32 stage) const {
    _Pragma("unroll") for (int step = 0; step < kSteps; ++step)
      _Pragma("unroll") for (int block = 0; block < kWarpgroupRows / 64; ++block)
        _Pragma("unroll") for (int j = 0; j < 4; ++j)
          load_shared_one(to.words[step][block][j],
                          stage + offsets[j] + u32(step * 8 * 128 + block * 64 * 128));
  }

  /// The same in the order that the instruction wants.
  __device__ __forceinline__ void order(LeftWords& to, const LeftWords& fetched) const {
    const bool odd = turn % 2 != 0, high = turn / 2 != 0;
    _Pragma("unroll") for (int step = 0; step < kSteps; ++step)
      _Pragma("unroll") for (int block = 0; block < kWarpgroupRows / 64; ++block) {
        const u32(&x)[4] = fetched.words[step][block];
        u32(&y)[4] = to.words[step][block];
        const u32 pairs[4] = {odd ? x[1] : x[0], odd ? x[0] : x[1], odd ? x[3] : x[2],
                              odd ? x[2] : x[3]};
        _Pragma("unroll") for (int j = 0; j < 4; ++j) {
          y[j] = high ? pairs[j ^ 2] : pairs[j];
          pin_word(y[j]);
        }
      }
  }
};

// ---- cuda/wgmma/copy.h ----
// The warpgroup that copies: bulk tensor copies of both operands into the ring. Expects abi.h,
// hopper_ptx.h, grid_ptx.h, tile_scheduler.h, ring.h.

/// Copies this block's share of one operand's rows and hands it to every block that needs it.
template <bool AcrossK, int Rows, int Sharers>
KILN_DEVICE void copy_rows(u32 to, const KilnTensorMap* map,
                           u32 barrier, int row, int k, int batch, u32 share, u16 mask, u64 hint) {
  if constexpr (AcrossK) {
    // Boxes of 32 rows by a share of the stage's k, k being the slow direction.
    constexpr int kShare = kDepth / Sharers;
    const u32 offset = share * kShare * 128;
    _Pragma("unroll") for (int block = 0; block < Rows / kLeftBlockRows; ++block) {
      const u32 there = to + block * kDepth * 128 + offset;
      const int first = row + block * kLeftBlockRows;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, first, k + int(share) * kShare, batch, mask,
                              hint);
      else
        tma_load_3d(there, map, barrier, first, k, batch, hint);
    }
  } else {
    constexpr int kShare = Rows / Sharers;
    if constexpr (Sharers > 1)
      tma_load_multicast_3d(to + share * kShare * 128, map, barrier, k, row + int(share) * kShare,
                            batch, mask, hint);
    else
      tma_load_3d(to, map, barrier, k, row, batch, hint);
  }
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  const int left_rows = int(kSwap ? args.n : args.m), right_rows = int(kSwap ? args.m : args.n);
  return TileScheduler::start(
      (left_rows + kLeftTile * kClusterLeft - 1) / (kLeftTile * kClusterLeft),
      (right_rows + kRightTile * kClusterRight - 1) / (kRightTile * kClusterRight),
      (int(args.k) + kDepth - 1) / kDepth, int(args.batch), rank);
}

/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler,
                          const KilnTensorMap* left,
                          const KilnTensorMap* right
) {
  const u32 rank_left = scheduler.rank % kClusterLeft, rank_right = scheduler.rank / kClusterLeft;
  // The blocks with my rows of the left operand, and those with my rows of the right one.
  const u16 same_left = kClusterRight > 1 ? (1 << kCluster) - 1 : 1;
  const u16 same_right = kClusterLeft > 1 ? (1 << kCluster) - 1 : 1;
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  for (; more; more = scheduler.take(work)) {
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      const int k = (work.begin + i) * kDepth;
      mbarrier_expect(barrier, kStageBytes);
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k,
                                                        work.batch, rank_right, same_left,
                                                        kLeftHint);
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier,
                                                         work.right * kRightTile, k, work.batch,
                                                         rank_left, same_right, kRightHint);
      turn.step();
    }
  }
}

// ---- cuda/wgmma/wgmma.cu ----
// Hopper: one warpgroup copies (copy.h), the others multiply (wgmma) and finish. Blocks are
// persistent. Expects wgmma.h, copy.h, consumer.h, convert.h, epilogue.h, where there are scales of
// blocks scales.h, and edges.h where groups of k begin within stages.

/// The instructions of one stage; `accumulate` 0 lets its first step start anew.
KILN_DEVICE void multiply_stage(Acc (&sums)[kSubtiles][kSums], const LeftWords& left, u64 right,
                                int accumulate) {
  pin_all(sums);
  wgmma_fence();
  _Pragma("unroll") for (int step = 0; step < kSteps; ++step)
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      wgmma_m64(sums[s], left.words[step][s], right + ((step * 32) >> 4), accumulate | step);
  wgmma_commit();
  pin_all(sums);
}

/// The products of `count` stages.
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                          int count, u32 row_offset, int group,
                          int lane
) {
  const LeftLane mine = LeftLane::of(row_offset, int(threadIdx.x) & 127);
  const u64 right0 = descriptor(kAlongK, shared.ring + kLeftBytes);
  // The next stage's words are fetched while this one's are multiplied, and put in order only when
  // no instruction is in flight: the assembler lets nothing write what an instruction may read.
  LeftWords fetched, words;
  mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
  mine.fetch(fetched, shared.ring + turn.stage * kStageBytes);
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    const u32 empty = shared.empty + turn.stage * 8;
    mine.order(words, fetched);
    multiply_stage(sums, words, right0 + u64(turn.stage) * (kStageBytes >> 4), i);
    turn.step();
    if (i + 1 < count) {
      mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
      mine.fetch(fetched, shared.ring + turn.stage * kStageBytes);
    }
    wgmma_wait<0>();
    pin_all(sums);
    release(empty, lane);
  }
}
