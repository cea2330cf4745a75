// device:  sm_90a
// problem: bf16 N T 100 6144 4096 align=16
// config:  cuda_wgmma left=64 right=96 stages=10 warpgroups=1 pingpong=0 swap=0 cluster_left=2 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0 clip=1

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 64;                   // rows of the left operand in a block's tile
constexpr int kRightTile = 96;                  // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 10;                     // places in the ring
constexpr int kWarpgroups = 1;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 48;                       // of a thread, for 64 left rows
constexpr int kReaders = 4;                     // warps that read one stage
constexpr int kRegions = 1;                     // warpgroups that share a tile
constexpr int kClusterLeft = 2;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kChunk = 32;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kCopyRegisters = 56;              // of the warps that copy
constexpr int kMultiplyRegisters = 240;         // of the warps that multiply
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
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47}"
#define KILN_WGMMA_OPERANDS "%48, %49, p, 1, 1, 0, 0"
#define KILN_WGMMA_ACCUMULATE "50"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47])
#define KILN_WGMMA_REGISTER "f"
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/wgmma/copy.h ----
// The warpgroup that copies: bulk tensor copies of both operands into the ring. Expects abi.h,
// hopper_ptx.h, grid_ptx.h, tile_scheduler.h, ring.h.

/// Copies this block's share of one operand's rows and hands it to every block that needs it.
/// `rows` of them exist from `row` on; `last` is the map whose box ends with them.
template <bool AcrossK, int Rows, int Sharers>
KILN_DEVICE void copy_rows(u32 to, const KilnTensorMap* map,
                           const KilnTensorMap* last, int rows,
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
    const int mine = rows - int(share) * kShare;
    if (mine <= 0) return;
    if (mine < kShare) map = last;
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

/// The maps of both operands; `last_` ones end with the operand's rows.
struct Maps {
  const KilnTensorMap *left, *right, *last_left, *last_right;
};

/// How many of a tile's rows exist.
template <int Tile>
KILN_DEVICE int rows_of(i64 rows, int tile) {
  return max(0, min(Tile, int(rows) - tile * Tile));
}

/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler,
                          const KilnGpuArgs& args,
                          const Maps& maps
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
    const int left_rows = rows_of<kLeftTile>(kSwap ? args.n : args.m, work.left);
    const int right_rows = rows_of<kRightTile>(kSwap ? args.m : args.n, work.right);
    const u32 bytes = (left_rows + right_rows) * 128;
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      const int k = (work.begin + i) * kDepth;
      mbarrier_expect(barrier, bytes);
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(
          to, maps.left, maps.last_left, left_rows, barrier, work.left * kLeftTile, k, work.batch,
          rank_right, same_left, kLeftHint);
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, maps.right, maps.last_right, right_rows, barrier,
          work.right * kRightTile, k, work.batch, rank_left, same_right, kRightHint);
      turn.step();
    }
  }
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
    if (group > 0)
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
              const __grid_constant__ KilnTensorMap map_last_left
              ,
              const __grid_constant__ KilnTensorMap map_last_right
              ,
              const __grid_constant__ KilnTensorMap map_d
    ) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  const Shared shared = Shared::at(shared_address(shared_bytes));
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int group = __shfl_sync(0xffffffff, int(threadIdx.x) / 128, 0);
  const u32 rank = cluster_rank();
  if (threadIdx.x == kWarpgroups * 128) {
    tensor_map_prefetch(&map_left);
    tensor_map_prefetch(&map_right);
    tensor_map_prefetch(&map_last_left);
    tensor_map_prefetch(&map_last_right);
    tensor_map_prefetch(&map_d);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(shared.full + i * 8, 1);
      mbarrier_init(shared.empty + i * 8, kReaders * kCluster);
    }
    mbarrier_init_fence();
  }
  cluster_sync();
  const TileScheduler scheduler = scheduler_of(args, rank);
  if (group == kWarpgroups) {
    give_registers<kCopyRegisters>();
    Maps maps{&map_left, &map_right, &map_left, &map_right};
    maps.last_left = &map_last_left;
    maps.last_right = &map_last_right;
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, args, maps);
  } else {
    take_registers<kMultiplyRegisters>();
    wait_for_previous_grid();
    let_next_grid_start();
    run_consumer(shared, scheduler, args, &map_d, group);
  }
  // A block that ended would take away the barriers at which the others still arrive.
  cluster_sync();
}
