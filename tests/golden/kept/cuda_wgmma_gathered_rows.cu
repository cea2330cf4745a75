// device:  sm_90a
// problem: bf16 N T 32768 4096 7168 groups=32 grouped=rows rows_of_a=4096 align=16 gather=rows
// config:  cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0 gather=1

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
constexpr int kGroupRows = 128;                 // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;                 // room in the tables of groups
constexpr int kChunk = 64;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kCopyRegisters = 72;              // of the warps that copy
constexpr int kMultiplyRegisters = 216;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = false;                  // A is copied into the workspace first
constexpr bool kPackB = false;                  // B is copied into the workspace first
constexpr bool kAlongKA = true;                 // A's neighbours run along k
constexpr bool kAlongKB = true;                 // B's neighbours run along k
constexpr bool kSwap = false;                   // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
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
#define KILN_WGMMA_OPERANDS "%128, %129, p, 1, 1, 0, 0"
#define KILN_WGMMA_ACCUMULATE "130"
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

// ---- cuda/wgmma/copy.h ----
// The warpgroup that copies: bulk tensor copies of both operands into the ring. Expects abi.h,
// hopper_ptx.h, grid_ptx.h, tile_scheduler.h, ring.h.

/// Copies this block's share of one operand's rows and hands it to every block that needs it.
template <bool AcrossK, int Rows, int Sharers>
KILN_DEVICE void copy_rows(u32 to, const KilnTensorMap* map,
                           u32 barrier, int row, int k, int batch, u32 share, u16 mask, u64 hint) {
  if constexpr (AcrossK) {
    // Boxes of 64 rows by a share of the stage's k, k being the slow direction.
    constexpr int kShare = kDepth / Sharers;
    const u32 offset = share * kShare * 128;
    _Pragma("unroll") for (int block = 0; block < (Rows + 63) / 64; ++block) {
      const u32 there = to + block * 64 * 128 + offset;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, row + block * 64, k + int(share) * kShare, batch,
                              mask, hint);
      else
        tma_load_3d(there, map, barrier, row + block * 64, k, batch, hint);
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

/// Clusters' tiles across the lines of B.
KILN_DEVICE int tiles_across(const KilnGpuArgs& args) {
  const int lines = int(args.n);
  constexpr int kLines = kSwap ? kLeftTile * kClusterLeft : kRightTile * kClusterRight;
  return (lines + kLines - 1) / kLines;
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
    constexpr int batch_of_a = 0;
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      const int k = (work.begin + i) * kDepth;
      mbarrier_expect(barrier, kSwap ? kLeftBytes : kRightBytes);
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier,
                                                         work.right * kRightTile, k, work.batch,
                                                         rank_left, same_right, kRightHint);
      turn.step();
    }
  }
}

// ---- cuda/wgmma/gather_ptx.h ----
// Copies of 16 bytes that three warps bring. Expects types.h.

/// The first `valid` bytes from memory, zeros behind them; with none it reads nothing.
KILN_DEVICE void cp_async_16(u32 to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
/// Arrives at a barrier in shared memory once all copies of this thread have come.
KILN_DEVICE void cp_async_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// ---- cuda/wgmma/gather.h ----
// Rows of A by index, which the copy engine cannot address: three warps of the warpgroup that
// copies bring them, swizzled as the copy engine would. Expects abi.h, indices.h, gather_ptx.h,
// tile_scheduler.h, ring.h.

constexpr int kGatherWarps = 3;
constexpr int kGatherRows = kSwap ? kRightTile : kLeftTile;  // of a stage
constexpr int kRowsAtOnce = kGatherWarps * 4;                // eight lanes bring a row's 128 bytes
constexpr int kGatherPasses = (kGatherRows + kRowsAtOnce - 1) / kRowsAtOnce;

/// Each lane arrives at the barrier of a place of the ring when its copies have come.
KILN_DEVICE void copy_gathered(const Shared& shared, TileScheduler scheduler,
                               const KilnGpuArgs& args, int warp, int lane) {
  constexpr int kEach = 16 / int(sizeof(TypeA));  // elements of a copy
  const int unit = lane % 8, first = warp * 4 + lane / 8, last_row = int(args.m) - 1;
  const auto* a = static_cast<const TypeA*>(args.a);
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  wait_for_previous_grid();
  for (; more; more = scheduler.take(work)) {
    // Looked up once a tile: in front of each copy, the look-ups take longer than the products.
    // Rows of the next group are not stored; behind the last one there is none.
    const int row0 = work.first_row + (kSwap ? work.right : work.left) * kGatherRows + first;
    int rows[kGatherPasses];
    _Pragma("unroll") for (int p = 0; p < kGatherPasses; ++p)
      rows[p] = row_of_a(args, min(row0 + p * kRowsAtOnce, last_row));
    _Pragma("unroll 1") for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 to = shared.ring + turn.stage * kStageBytes + (kSwap ? kLeftBytes : 0);
      const int k = (work.begin + i) * kDepth + unit * kEach;
      const int valid = max(0, min(kEach, int(args.k) - k)) * int(sizeof(TypeA));
      const TypeA* from = a + (valid > 0 ? k : 0);
      _Pragma("unroll") for (int p = 0; p < kGatherPasses; ++p) {
        const int r = first + p * kRowsAtOnce;
        if (r < kGatherRows)
          cp_async_16(to + u32(r * 128 + (unit ^ r % 8) * 16), from + i64(rows[p]) * args.lda,
                      valid);
      }
      cp_async_arrive(shared.full + turn.stage * 8);
      turn.step();
    }
  }
}

// ---- cuda/wgmma/wgmma.cu ----
// Hopper: one warpgroup copies (copy.h), the others multiply (wgmma) and finish. Blocks are
// persistent. Expects wgmma.h, copy.h, consumer.h, convert.h, epilogue.h, where there are scales of
// blocks scales.h, and edges.h where groups of k begin within stages.

/// The instructions of one stage; `accumulate` 0 lets its first step start anew.
KILN_DEVICE void multiply_stage(Acc (&sums)[kSubtiles][kSums], u64 left, u64 right,
                                int accumulate) {
  constexpr u32 kLeftStep = kLeftAcrossK ? 16 * 128 : 32,
                kRightStep = kRightAcrossK ? 16 * 128 : 32;
  pin_all(sums);
  wgmma_fence();
  _Pragma("unroll") for (int step = 0; step < 4; ++step)
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      wgmma_m64(sums[s], left + ((s * 64 * 128 + step * kLeftStep) >> 4),
                right + ((step * kRightStep) >> 4), accumulate | step);
  wgmma_commit();
  pin_all(sums);
}

/// The products of `count` stages.
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                          int count, u32 row_offset, int group,
                          int lane
) {
  constexpr u64 kLeftLayout = kLeftAcrossK ? across_k(64 * 128) : kAlongK;
  constexpr u64 kRightLayout = kRightAcrossK ? across_k(64 * 128) : kAlongK;
  const u64 left0 = descriptor(kLeftLayout, shared.ring + row_offset * 128);
  const u64 right0 = descriptor(kRightLayout, shared.ring + kLeftBytes);
  // One group of instructions stays in flight, so that a place is released one stage late.
  u32 behind = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    fence_async_shared();
    const u64 place = u64(turn.stage) * (kStageBytes >> 4);
    multiply_stage(sums, left0 + place, right0 + place, i);
    wgmma_wait<1>();
    if (i > 0) release(behind, lane);
    behind = shared.empty + turn.stage * 8;
    turn.step();
  }
  wgmma_wait<0>();
  pin_all(sums);
  release(behind, lane);
}

// ---- cuda/wgmma/kernel.cu ----
// The kernel itself: who copies, who multiplies. Expects copy_all() and multiply(), store.h and,
// where k is divided, combine.h.

KILN_DEVICE void run_consumer(const Shared& shared, TileScheduler scheduler,
                              const KilnGpuArgs& args, const KilnTensorMap* map_d, int group) {
  const int thread = int(threadIdx.x) & 127, lane = thread & 31;
  Acc sums[kSubtiles][kSums];
  Turn turn;
  Work work;
  const u32 kRowOffset = group * kWarpgroupRows;
  const int region = group;
  // The others start some stages behind the first: while it finishes a tile, they still multiply.
  if (group > 0 && scheduler.next < scheduler.tiles)  // blocks may be left without a tile
      mbarrier_wait(shared.full + (min(scheduler.stages, kStages - 1) - 1) * 8, 0);
  while (scheduler.take(work)) {
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane);
    store_tile(sums, work, args, map_d, shared.buffers, kRowOffset, group, thread);
  }
  if (lane == 0) tma_store_wait_read<0>();
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args
              ,
              const __grid_constant__ KilnTensorMap map_left,
              const __grid_constant__ KilnTensorMap map_right
              ,
              const __grid_constant__ KilnTensorMap map_d
    ) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  const Shared shared = Shared::at(shared_address(shared_bytes));
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int group = __shfl_sync(0xffffffff, int(threadIdx.x) / 128, 0);
  const u32 rank = 0;
  if (threadIdx.x == kWarpgroups * 128) {
    tensor_map_prefetch(&map_left);
    tensor_map_prefetch(&map_right);
    tensor_map_prefetch(&map_d);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(shared.full + i * 8, 1 + kGatherWarps * 32);
      mbarrier_init(shared.empty + i * 8, kReaders * kCluster);
    }
    mbarrier_init_fence();
  }
  const Groups groups = Groups::at(shared.flags, args);
  // The list may be the work of the grid before.
  wait_for_previous_grid();
  groups.read(args, int(threadIdx.x), kThreads);
  __syncthreads();
  if (group == kWarpgroups && int(threadIdx.x) < kThreads - 96)
    groups.count_tiles(tiles_across(args), int(threadIdx.x) & 31);
  __syncthreads();
  TileScheduler scheduler = scheduler_of(args, rank);
  scheduler.groups = groups;
  // Through a shuffle as well: the assembler serialises wgmma in a loop on whose end the lanes of a
  // warp may not agree.
  scheduler.tiles = __shfl_sync(0xffffffff, groups.tiles_before(groups.count), 0);
  if (group == kWarpgroups) {
    give_registers<kCopyRegisters>();
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, &map_left, &map_right);
    const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0) - kWarpgroups * 4 - 1;
    if (warp >= 0) copy_gathered(shared, scheduler, args, warp, int(threadIdx.x) & 31);
  } else {
    take_registers<kMultiplyRegisters>();
    wait_for_previous_grid();
    let_next_grid_start();
    run_consumer(shared, scheduler, args, &map_d, group);
  }
}
