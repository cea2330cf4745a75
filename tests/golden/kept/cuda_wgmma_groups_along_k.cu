// device:  sm_90a
// problem: fp8 N T 7168 2048 32768 groups=32 grouped=k align=16 scale=1x128:128x128
// config:  cuda_wgmma left=128 right=128 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=1

// ---- parameters ----
using TypeA = Float8E4;                         // elements of A
using TypeB = Float8E4;                         // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kGroupDepth = 128;                // k of one stage
constexpr int kMostGroups = 64;                 // room in the tables of groups
constexpr int kLeftLines = 1;                   // rows of the left operand that share a scale
constexpr int kRightLines = 128;                // and of the right one
constexpr int kLeftShare = 1;                   // rows of its tile for which a stage has one scale
constexpr int kRightShare = 128;                // and of the right one's
constexpr int kChunk = 64;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kCopyRegisters = 56;              // of the warps that copy
constexpr int kMultiplyRegisters = 224;         // of the warps that multiply
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
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63}"
#define KILN_WGMMA_OPERANDS "%64, %65, p, 1, 1"
#define KILN_WGMMA_ACCUMULATE "66"
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
    s.clusters = int(gridDim.x);
    s.next = int(blockIdx.x);
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
    // Stages lie where all of k has them, so that each is a block of scales. An empty group
    // multiplies one stage of zeros, so that its D is written.
    work.begin = work.first_k / kGroupDepth;
    work.count = max(1, (work.first_k + work.k + kGroupDepth - 1) / kGroupDepth - work.begin);
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
      // What is of other groups the warps that multiply clear (edges.h).
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k,
                                                        0, rank_right, same_left, kLeftHint);
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier,
                                                         work.right * kRightTile, k, 0, rank_left,
                                                         same_right, kRightHint);
      turn.step();
    }
  }
}

// ---- cuda/wgmma/edges.h ----
// Groups of k whose lines run along k: in a group's first and last stage there may be elements of
// its neighbours, which become zeros in shared memory. Of both operands, since zero times NaN is no
// zero. Expects hopper_ptx.h, groups_ptx.h, tile_scheduler.h, tile.h.

/// Through a shuffle: the assembler serialises wgmma beside branches on which the lanes of a warp
/// may not agree.
KILN_DEVICE int same_for_warp(int x) { return __shfl_sync(0xffffffff, x, 0); }

/// Which bytes of a stage's lines are of the tile's group: from `first` on in its first stage, up
/// to `end` in its last one.
struct Edges {
  int first, end;

  static __device__ __forceinline__ Edges of(const Work& work) {
    constexpr int kBytes = 128 / kDepth;  // of an element
    const int last = work.begin + work.count - 1;
    return {same_for_warp((work.first_k - work.begin * kDepth) * kBytes),
            same_for_warp((work.first_k + work.k - last * kDepth) * kBytes)};
  }

  /// Clears the other bytes of stage `i` of `count`, which begins at `stage`: in this warpgroup's
  /// left lines, of which `row_offset` is the first, and in its share of the right ones.
  __device__ __forceinline__ void clear(u32 stage, int i, int count, u32 row_offset,
                                        int group) const {
    const int begin = i == 0 ? first : 0, behind = i + 1 == count ? end : 128;
    if (begin == 0 && behind == 128) return;
    const int thread = int(threadIdx.x) & 127;
    _Pragma("unroll 1") for (int row = thread; row < kWarpgroupRows; row += 128)
      clear_line(stage, int(row_offset) + row, begin, behind);
    const int kFirst = group * 128;
    _Pragma("unroll 1") for (int row = kFirst + thread; row < kRightTile; row += kRegions * 128)
      clear_line(stage + kLeftBytes, row, begin, behind);
    fence_async_shared();
    named_barrier_sync(kGroupBarrier + kWarpgroups, kWarpgroups * 128);
  }

  static __device__ __forceinline__ void clear_line(u32 tile, int row, int begin, int behind) {
    _Pragma("unroll 1") for (int byte = 0; byte < 128; byte += 4) {
      const int head = min(4, max(0, begin - byte)), tail = min(4, max(0, byte + 4 - behind));
      if (head + tail == 0) continue;
      const u32 at = tile + row * 128 + ((byte / 16) ^ (row % 8)) * 16 + byte % 16;
      const u32 kept =
          head + tail >= 4 ? 0 : (0xffffffffu << (head * 8)) & (0xffffffffu >> (tail * 8));
      store_shared_word(at, kept == 0 ? 0 : load_shared_word(at) & kept);
    }
  }
};

// ---- cuda/wgmma/scales.h ----
// Scales of blocks of k. A stage's lie beside its operands in shared memory; warps of the producer
// that copy no operand bring them.
// Expects abi.h, grid_ptx.h, tile_scheduler.h, ring.h, scales_ptx.h.

/// Where one line's scales begin, of which there is one for each stage of all of k; `Lines` lines
/// share them. Null for a line that does not exist.
template <int Lines>
KILN_DEVICE const float* scales_of_line(const void* scales, i64 lines, i64 line, i64 batch, i64 k) {
  if (line < 0 || line >= lines) return nullptr;
  const i64 row = batch * ((lines + Lines - 1) / Lines) + line / Lines;
  return static_cast<const float*>(scales) + row * ((k + kDepth - 1) / kDepth);
}

/// The line's scales whose current one is number `index` of a stage: those of the right tile come
/// first.
KILN_DEVICE const float* scales_at(const KilnGpuArgs& args, const Work& work, int index) {
  if (index >= kRightScales + kLeftScales) return nullptr;
  if (work.k == 0) return nullptr;  // a stage of zeros may lie behind all blocks
  const bool right = index < kRightScales;
  const int at = right ? index * kRightShare : (index - kRightScales) * kLeftShare;
  if (right == kSwap) {
    i64 batch = 0, line = i64(kSwap ? work.right * kRightTile : work.left * kLeftTile) + at;
    return scales_of_line < kSwap ? kRightLines
                                  : kLeftLines > (args.scale_a, args.m, line, batch, args.k);
  }
  const i64 line = i64(kSwap ? work.left * kLeftTile : work.right * kRightTile) + at,
            lines = args.n;
  return scales_of_line < kSwap ? kLeftLines : kRightLines > (args.scale_b, lines, line, 0, args.k);
}

/// Where scale `index` lies in a stage, so that a lane reads several at once: reads of scales
/// compete with those of the instructions that multiply.
KILN_DEVICE constexpr int place_of_scale(int index) {
  if (index < kRightScales)
    return kRightShare == 1 ? index % 8 / 2 * kLaneScales + index / 8 * 2 + index % 2 : index;
  const int row = index - kRightScales;
  // A lane's two rows lie beside each other.
  return kRightPlaces + (kLeftShare == 1 ? (row / 16 * 8 + row % 8) * 2 + row / 8 % 2 : row);
}

constexpr int kScaleChunk = 4;  // stages whose scales are read together

/// The scales of a chunk, of which `count` exist: by one read where they are aligned. Each line
/// that a warp reads is an access of its own of L1, which is shared memory too.
KILN_DEVICE void read_scales(float (&to)[kScaleChunk], const float* from, int count) {
  if (count >= kScaleChunk && from != nullptr && (reinterpret_cast<u64>(from) & 15) == 0) {
    read_four_scales(to, from);
    return;
  }
  _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j)
    to[j] = from != nullptr && j < count ? from[j] : 0.0f;
}

/// What each of kScaleWarps warps does. A chunk is read while the one before it is handed out.
KILN_DEVICE void copy_scales(const Shared& shared, TileScheduler scheduler, const KilnGpuArgs& args,
                             int warp, int lane) {
  constexpr int kLanes = kScaleWarps * 32;
  constexpr int kEach = (kLeftScales + kRightScales + kLanes - 1) / kLanes;  // of a lane
  const int first_index = warp * 32 + lane;
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  wait_for_previous_grid();
  for (; more; more = scheduler.take(work)) {
    const float* from[kEach];
    float now[kEach][kScaleChunk], next[kEach][kScaleChunk];
    _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
      from[e] = scales_at(args, work, first_index + e * kLanes);
      if (from[e]) from[e] += work.begin;
      read_scales(next[e], from[e], work.count);
    }
    _Pragma("unroll 1") for (int first = 0; first < work.count; first += kScaleChunk) {
      _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
        _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j) now[e][j] = next[e][j];
        if (from[e] != nullptr) from[e] += kScaleChunk;
        read_scales(next[e], from[e], work.count - first - kScaleChunk);
      }
      _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j) {
        if (first + j >= work.count) break;
        mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
        const u32 to = shared.scales + turn.stage * kScaleBytes;
        _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
          const int index = first_index + e * kLanes;
          if (index < kRightScales + kLeftScales)
            store_scale(to + place_of_scale(index) * 4, now[e][j]);
        }
        __syncwarp();
        if (lane == 0) mbarrier_arrive(shared.full + turn.stage * 8);
        turn.step();
      }
    }
  }
}

/// What one thread's sums of a stage are multiplied by: scales of two rows in each 64 of the left
/// operand, or of all 64, and of its columns or of columns that share one.
struct StageScales {
  static constexpr int kRows = kLeftShare < 64 ? 2 : 1;
  static constexpr int kColumns = kRightShare == 1 ? kSums / 2 : kRightScales;
  static constexpr int kReads = (kColumns + 3) / 4;
  float left[kSubtiles][2], right[kReads][4];

  static __device__ __forceinline__ StageScales of(u32 from, u32 row_offset, int thread) {
    StageScales to;
    const u32 first_right = kRightShare == 1 ? from + thread % 4 * (kLaneScales * 4) : from;
    _Pragma("unroll") for (int i = 0; i < kReads; ++i)
      load_scales(to.right[i], first_right + i * 16);
    const int in_64 = kRows == 2 ? thread / 32 * 16 + thread % 32 / 4 : 0;
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s) {
      const int row = int(row_offset) + s * 64 + in_64;
      if constexpr (kLeftShare == 1) {
        load_scales(to.left[s], from + place_of_scale(kRightScales + row) * 4);
      } else {
        _Pragma("unroll") for (int half = 0; half < kRows; ++half)
          to.left[s][half] =
              load_scale(from + place_of_scale(kRightScales + (row + half * 8) / kLeftShare) * 4);
      }
    }
    return to;
  }
  __device__ __forceinline__ float of(int s, int r) const {
    const int column = kRightShare == 1 ? r / 4 * 2 + r % 2 : r / 4 * 8 / kRightShare;
    return left[s][kRows == 2 ? r / 2 % 2 : 0] * right[column / 4][column % 4];
  }
};

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
                          int lane,
                          const Edges& edges
) {
  constexpr u64 kLeftLayout = kLeftAcrossK ? across_k(64 * 128) : kAlongK;
  constexpr u64 kRightLayout = kRightAcrossK ? across_k(64 * 128) : kAlongK;
  const u64 left0 = descriptor(kLeftLayout, shared.ring + row_offset * 128);
  const u64 right0 = descriptor(kRightLayout, shared.ring + kLeftBytes);
  // The instruction keeps about 14 bits of 8-bit products' sums: each stage's are added in fp32.
  Acc part[kSubtiles][kSums];
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    edges.clear(shared.ring + turn.stage * kStageBytes, i, count, row_offset, group);
    const u64 place = u64(turn.stage) * (kStageBytes >> 4);
    multiply_stage(part, left0 + place, right0 + place, 0);
    const auto scales = StageScales::of(shared.scales + turn.stage * kScaleBytes, row_offset,
                                        int(threadIdx.x) & 127);
    wgmma_wait<0>();
    pin_all(part);
    __syncwarp();  // all lanes have their scales
    release(shared.empty + turn.stage * 8, lane);
    turn.step();
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += part[s][r] * scales.of(s, r);
  }
}
