// device:  sm_90a
// problem: fp8 N T 4096 4096 4096 align=16 scale=1x128:128x128
// config:  cuda_wgmma left=128 right=160 stages=5 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=1 tma_scales=1

// ---- parameters ----
using TypeA = Float8E4;                         // elements of A
using TypeB = Float8E4;                         // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 160;                 // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 5;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 80;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kLeftLines = 1;                   // rows of the left operand that share a scale
constexpr int kRightLines = 128;                // and of the right one
constexpr int kLeftShare = 1;                   // rows of its tile for which a stage has one scale
constexpr int kRightShare = 32;                 // and of the right one's
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
constexpr bool kAlongKB = true;                 // B's neighbours run along k
constexpr bool kSwap = false;                   // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n160k32.f32.e4m3.e4m3"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79}"
#define KILN_WGMMA_OPERANDS "%80, %81, p, 1, 1"
#define KILN_WGMMA_ACCUMULATE "82"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63]), \
  "+f"((d)[64]), "+f"((d)[65]), "+f"((d)[66]), "+f"((d)[67]), "+f"((d)[68]), "+f"((d)[69]), "+f"((d)[70]), "+f"((d)[71]), \
  "+f"((d)[72]), "+f"((d)[73]), "+f"((d)[74]), "+f"((d)[75]), "+f"((d)[76]), "+f"((d)[77]), "+f"((d)[78]), "+f"((d)[79])
#define KILN_WGMMA_REGISTER "f"
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/wgmma/tile.h ----
// Sizes of a tile and of what shared memory holds for it. "Left" is the operand whose rows are the
// instruction's 64 rows, "right" the one whose rows are its columns; kSwap says that left is B, so
// that D's tile is computed transposed. Expects types.h.

constexpr int kCluster = kClusterLeft * kClusterRight;
constexpr int kLeftBytes = kLeftTile * 128;  // of one stage
constexpr int kRightBytes = (kRightAcrossK ? (kRightTile + 63) / 64 * 64 : kRightTile) * 128;
constexpr int kStageBytes = kLeftBytes + kRightBytes;
constexpr int kSubtiles = kWarpgroupRows / 64;  // of one warpgroup
constexpr int kThreads = (kWarpgroups + 1) * 128;
constexpr int kBufferBytes = 16 * kChunk * int(sizeof(TypeD));  // of a warp's part of D
constexpr int kStoreBytes = kWarpgroups * 4 * kStoreBuffers * kBufferBytes;
static_assert(kRightTile / kClusterLeft % 8 == 0, "a block copies whole swizzle atoms");
// Scales of four stages come together, by the copy engine: four of each left row and, behind them,
// of every kRightShare rows of the right tile, those in lines of 128 bytes, where copies may begin.
// A stage is copied when the one kStages before it has been read, so that so many places suffice.
constexpr int kScaleStages = 4,
              kScalePlaces = (kStages + kScaleStages - 1 + kScaleStages - 1) / kScaleStages;
constexpr int kRightScales = kRightTile / kRightShare, kRightScalesAt = kLeftTile * 16;
constexpr int kCopiedScaleBytes = (kLeftTile + kRightScales) * 16;
constexpr int kScaleBytes = kRightScalesAt + kRightScales * 128;  // of a place

// ---- cuda/wgmma/ring.h ----
// The ring of pipeline stages in shared memory. Expects tile.h.

/// Shared memory: the ring, buffers of stores, barriers.
struct Shared {
  u32 ring, buffers, full, empty, flags;  // flags of shared k, or the tables of groups
  u32 scales;  // a ring of their own
  static __device__ __forceinline__ Shared at(u32 base) {
    Shared s;
    s.ring = base;
    s.buffers = base + kStages * kStageBytes;
    s.scales = s.buffers + kStoreBytes;
    s.full = s.scales + kScalePlaces * kScaleBytes;
    s.empty = s.full + kStages * 8;
    s.flags = s.empty + kStages * 8;
    return s;
  }
};

/// Where in the ring a warp is, and the parity of that place's barriers.
struct Turn {
  int stage = 0;
  u32 parity = 0;
  u32 scales = 0;  // where the stage's lie in their ring; a tile has whole fours of stages
  __device__ __forceinline__ void step() {
    scales += 4;
    if (scales % 16 == 0) scales += kScaleBytes - 16;
    if (scales == kScalePlaces * kScaleBytes) scales = 0;
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// ---- cuda/wgmma/tma_scales.h ----
// Scales of blocks of k that the copy engine brings: four of each row of A's tile, of which one box
// holds all, and four of each square of B. They count at the barrier of the first of their four
// stages. Expects hopper_ptx.h, tile.h.

/// Into a place of their ring. `row` and `column` are the tile's first ones of A and of D, `first`
/// the stage. What does not exist comes as zeros.
KILN_DEVICE void copy_scales(u32 to, u32 barrier, const KilnTensorMap* of_a,
                             const KilnTensorMap* of_b, int row, int batch_of_a, int column,
                             int batch, int first) {
  tma_load_3d(to, of_a, barrier, first, row, batch_of_a, kLeftHint);
  _Pragma("unroll") for (int i = 0; i < kRightScales; ++i)
    tma_load_3d(to + kRightScalesAt + i * 128, of_b, barrier, first,
                (column + i * kRightShare) / kRightLines, batch, kRightHint);
}

// ---- cuda/wgmma/scales.h ----
// Scales of blocks of k, which tma_scales.h brings. Expects tile.h, scales_ptx.h.

/// What one thread's sums of a stage are multiplied by: scales of two rows in each 64 of A, and of
/// columns that share one.
struct StageScales {
  float left[kSubtiles][2], right[kRightScales];

  static __device__ __forceinline__ StageScales of(u32 from, u32 row_offset, int thread) {
    StageScales to;
    const int in_64 = thread / 32 * 16 + thread % 32 / 4;
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      _Pragma("unroll") for (int half = 0; half < 2; ++half)
        to.left[s][half] = load_scale(from + (int(row_offset) + s * 64 + in_64 + half * 8) * 16);
    _Pragma("unroll") for (int i = 0; i < kRightScales; ++i)
      to.right[i] = load_scale(from + kRightScalesAt + i * 128);
    return to;
  }
  __device__ __forceinline__ float of(int s, int r) const {
    return left[s][r / 2 % 2] * right[r / 4 * 8 / kRightShare];
  }
};
