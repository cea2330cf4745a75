// device:  sm_90a
// problem: bf16 T N 7168 2048 32768 groups=32 grouped=k align=16
// config:  cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=2 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0

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
constexpr int kClusterLeft = 2;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kGroupDepth = 64;                 // k of one stage
constexpr int kMostGroups = 64;                 // room in the tables of groups
constexpr int kChunk = 64;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kCopyRegisters = 56;              // of the warps that copy
constexpr int kMultiplyRegisters = 224;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = false;                  // A is copied into the workspace first
constexpr bool kPackB = false;                  // B is copied into the workspace first
constexpr bool kAlongKA = false;                // A's neighbours run along k
constexpr bool kAlongKB = false;                // B's neighbours run along k
constexpr bool kSwap = false;                   // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = true;             // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = true;            // the right operand's rows are neighbours
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
#define KILN_WGMMA_OPERANDS "%128, %129, p, 1, 1, 1, 1"
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

// ---- cuda/common/group_args.h ----
// One group of a grouped problem as a product of its own. Expects abi.h and, from the parameters,
// the types.

/// The call of one group's product, seen as a batch's: `step_a` and `step_b` elements lie between
/// neighbours along k.
KILN_DEVICE KilnGpuArgs args_of_group(const KilnGpuArgs& args, i64 group, i64 first_k, i64 k,
                                      i64 step_a, i64 step_b) {
  KilnGpuArgs own = args;
  own.k = k;
  own.a = static_cast<const TypeA*>(args.a) + first_k * step_a;
  own.b = static_cast<const TypeB*>(args.b) + first_k * step_b;
  using TypeBias = Real;
  return own;
}

// ---- cuda/common/groups.h ----
// A grouped problem's groups: which part of k each has. The list of them lies in the device's
// memory, so each block reads it before its first tile. Expects abi.h, epilogue.h, groups_ptx.h,
// group_args.h.

/// A table in shared memory, of kMostGroups words.
struct Groups {
  u32 ends;  // of each group the index along k behind its last one
  int count;

  static __device__ __forceinline__ Groups at(u32 base, const KilnGpuArgs& args) {
    return {base, int(args.batch)};
  }
  /// What the list may not say becomes the nearest that it may. A group begins behind all groups
  /// before it, so each end becomes the largest one up to it. By all threads of a block.
  __device__ __forceinline__ void read(const KilnGpuArgs& args, int thread, int threads) const {
    const int* list = static_cast<const int*>(args.groups);
    for (int i = thread; i < count; i += threads)
      store_shared_word(ends + i * 4, u32(max(0, min(int(args.k), list[i]))));
    __syncthreads();
    // The first warp. Through a shuffle: the assembler serialises wgmma behind branches on which
    // the lanes of a warp may not agree.
    if (__shfl_sync(0xffffffff, thread / 32, 0) != 0) return;
    int before = 0;
    for (int first = 0; first < count; first += 32) {
      const int i = first + thread;
      int end = i < count ? max(before, int(load_shared_word(ends + i * 4))) : before;
      _Pragma("unroll") for (int step = 1; step < 32; step *= 2)
        end = max(end, __shfl_sync(0xffffffff, end, max(0, thread - step)));
      if (i < count) store_shared_word(ends + i * 4, u32(end));
      before = __shfl_sync(0xffffffff, end, 31);
    }
  }
  __device__ __forceinline__ int first_k(int group) const {
    return group == 0 ? 0 : int(load_shared_word(ends + group * 4 - 4));
  }
  __device__ __forceinline__ int length(int group) const {
    return max(0, int(load_shared_word(ends + group * 4)) - first_k(group));
  }
};

/// Where the results of one group go.
KILN_DEVICE Output output_of_group(const KilnGpuArgs& args, i64 group) {
  return output_of(args_of_group(args, group, 0, args.k, 0, 0), group);
}

// ---- cuda/common/tile_scheduler.h ----
// The tile scheduler: which tile a block computes next, and which part of its k. D's tiles form a
// grid: `left` counts tiles along the rows of the left operand, `right` along those of the right
// one (A and B, or B and A where D is computed transposed). k is counted in pipeline stages. Blocks
// of a cluster get neighbouring tiles and the same k; without clusters each block is a cluster of
// its own.
// Groups have equal numbers of tiles, and each its own part of k. Expects groups.h.

struct Work {
  int left, right;  // tile coordinates of this block
  int batch;
  int begin, count;  // stages of k
  int first_k, k;  // of the group
};

struct TileScheduler {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;  // of the block in its cluster
  Groups groups;

  /// The counts are of clusters' tiles, and 32-bit on purpose: divisions of 64-bit numbers took
  /// 1 us before the first copy (H200).
  static __device__ __forceinline__ TileScheduler start(int lefts, int rights, int stages,
                                                        int batches, u32 rank) {
    TileScheduler s;
    s.rank = rank;
    s.lefts = lefts;
    s.rights = rights;
    s.stages = stages;
    s.tiles = lefts * rights * batches;
    s.clusters = int(gridDim.x) / (kClusterLeft * kClusterRight);
    s.next = int(blockIdx.x) / (kClusterLeft * kClusterRight);
    return s;
  }

  /// Rasterization in bands of kGroup tiles along one side, so that L2 serves what they share.
  __device__ __forceinline__ void place(Work& work, int tile) const {
    const int area = lefts * rights;
    work.batch = tile / area;
    const int at = tile - work.batch * area;
    const int band = at / (kGroup * rights), in_band = at - band * kGroup * rights;
    const int height = min(lefts - band * kGroup, kGroup);
    const int across = in_band / height;
    work.left = band * kGroup + in_band - across * height;
    work.right = across;
    work.left = work.left * kClusterLeft + int(rank % kClusterLeft);
    work.right = work.right * kClusterRight + int(rank / kClusterLeft);
  }

  /// The block's next work; false when there is none.
  __device__ __forceinline__ bool take(Work& work) {
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.count = stages;
    next += clusters;
    place(work, tile);
    work.first_k = groups.first_k(work.batch);
    work.k = groups.length(work.batch);
    // An empty group multiplies one stage of zeros, so that its D is written.
    work.count = max(1, (work.k + kGroupDepth - 1) / kGroupDepth);
    return true;
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

/// As copy_rows(), of lines that end where the group's k does, at `end`. A stage that is not full
/// has its lines last, behind zeros. The map's second dimension is a box's lines, its third all of
/// k: the coordinate of the third is the first line that counts, and the zeros lie before the
/// first of the second.
template <int Rows, int Sharers>
KILN_DEVICE void copy_lines(u32 to, const KilnTensorMap* map, u32 barrier, int row, int k, int end,
                            u32 share, u16 mask, u64 hint) {
  constexpr int kShare = kDepth / Sharers;
  const int first = max(0, min(kDepth, end - k)) - kDepth + int(share) * kShare;  // from k
  const int zeros = max(0, -first), line = k + max(0, first);
  _Pragma("unroll") for (int block = 0; block < (Rows + 63) / 64; ++block) {
    const u32 there = to + block * 64 * 128 + share * kShare * 128;
    if constexpr (Sharers > 1)
      tma_load_multicast_3d(there, map, barrier, row + block * 64, -zeros, line, mask, hint);
    else
      tma_load_3d(there, map, barrier, row + block * 64, -zeros, line, hint);
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
      const int k = work.first_k + i * kDepth, end = work.first_k + work.k;
      mbarrier_expect(barrier, kStageBytes);
      copy_lines<kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k, end,
                                           rank_right, same_left, kLeftHint);
      copy_lines<kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier, work.right * kRightTile,
                                           k, end, rank_left, same_right, kRightHint);
      turn.step();
    }
  }
}

// ---- cuda/wgmma/kernel.cu ----
// The kernel itself: who copies, who multiplies. Expects copy_all() and multiply(), store.h and,
// where k is divided, combine.h.

/// Through a shuffle: the assembler serialises wgmma in a loop on whose end the lanes of a warp may
/// not agree.
KILN_DEVICE int same_for_warp(int x) { return __shfl_sync(0xffffffff, x, 0); }

KILN_DEVICE void run_consumer(const Shared& shared, TileScheduler scheduler,
                              const KilnGpuArgs& args, const KilnTensorMap* map_d, int group) {
  const int thread = int(threadIdx.x) & 127, lane = thread & 31;
  Acc sums[kSubtiles][kSums];
  Turn turn;
  Work work;
  const u32 kRowOffset = group * kWarpgroupRows;
  const int region = group;
  // The others start some stages behind the first: while it finishes a tile, they still multiply.
  TileScheduler ahead = scheduler;  // the first tile may be of a short group, or there is none
  if (group > 0 && ahead.take(work))
    mbarrier_wait(shared.full + (min(same_for_warp(work.count), kStages - 1) - 1) * 8, 0);
  while (scheduler.take(work)) {
    work.count = same_for_warp(work.count);
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
  const u32 rank = cluster_rank();
  if (threadIdx.x == kWarpgroups * 128) {
    tensor_map_prefetch(&map_left);
    tensor_map_prefetch(&map_right);
    tensor_map_prefetch(&map_d);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(shared.full + i * 8, 1);
      mbarrier_init(shared.empty + i * 8, kReaders * kCluster);
    }
    mbarrier_init_fence();
  }
  const Groups groups = Groups::at(shared.flags, args);
  // The list may be the work of the grid before.
  wait_for_previous_grid();
  groups.read(args, int(threadIdx.x), kThreads);
  cluster_sync();
  TileScheduler scheduler = scheduler_of(args, rank);
  scheduler.groups = groups;
  if (group == kWarpgroups) {
    give_registers<kCopyRegisters>();
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, &map_left, &map_right);
  } else {
    take_registers<kMultiplyRegisters>();
    wait_for_previous_grid();
    let_next_grid_start();
    run_consumer(shared, scheduler, args, &map_d, group);
  }
  // A block that ended would take away the barriers at which the others still arrive.
  cluster_sync();
}
