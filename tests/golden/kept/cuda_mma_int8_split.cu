// device:  sm_80
// problem: int8 T N 100 200 4000 epilogue=bias_row+relu align=4
// config:  cuda_mma block_m=64 block_n=64 block_k=64 warps_m=2 warps_n=2 stages=4 instruction_k=32 bits_a=2 base_a=4 shift_a=1 bits_b=2 base_b=4 shift_b=1 ahead=1 group=8 splits=4

// ---- parameters ----
using TypeA = i8;                     // elements of A
using TypeB = i8;                     // elements of B
using TypeD = i32;                    // elements of C and D
using Acc = i32;                      // accumulators
using Real = float;                   // what the epilogue computes in
using Fragment = u32;                 // a register of an operand
constexpr int kBlockM = 64;           // rows of D in a block's tile
constexpr int kBlockN = 64;           // columns of D in it
constexpr int kBlockK = 64;           // k of one stage
constexpr int kWarpsM = 2;            // warps that share the tile's rows
constexpr int kThreads = 128;         // of a block
constexpr int kBlocks = 3;            // that are to fit one SM
constexpr int kTilesM = 2;            // 16 rows each, of a warp
constexpr int kTilesN = 4;            // 8 columns each, of a warp
constexpr int kChunks = 1;            // parts of a step, each with 4 registers of 16 rows of A
constexpr int kStepK = 32;            // k of one step
constexpr int kMmaSums = 4;           // registers of sums of the matrix instruction
constexpr int kMmaA = 4;              // registers of A
constexpr int kMmaB = 2;              // registers of B
constexpr int kStages = 4;            // of the ring
constexpr int kUnit = 4;              // bytes of one copy to shared memory
constexpr int kBitsA = 2;             // of a byte's place in a line of A's tile that are exchanged
constexpr int kBaseA = 4;             // the first of them
constexpr int kShiftA = 1;            // with bits of the line's number from here on
constexpr int kBitsB = 2;             // the same for B
constexpr int kBaseB = 4;             // 
constexpr int kShiftB = 1;            // 
constexpr int kStoreWidth = 1;        // elements of D stored at once
constexpr int kGroup = 8;             // rows of tiles in a band of the rasterization
constexpr int kCounterBytes = 65536;  // front of the workspace, counters of tiles
constexpr int kSplits = 4;            // parts that k is divided into
constexpr bool kAlongKA = false;      // A's neighbours run along k
constexpr bool kAlongKB = false;      // B's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+r"((d)[0]), "+r"((d)[1]), "+r"((d)[2]), "+r"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])
#define KILN_ACC_IN(x) "r"(x)
#define KILN_ACC_OUT(x) "=r"(x)
#define KILN_LOAD_PAIR "ld.global.cg.v2.b32 {%0, %1}, [%2];"
#define KILN_STORE_PAIR "st.global.v2.b32 [%0], {%1, %2};"

// ---- cuda/common/tile_scheduler.h ----
// The tile scheduler: which tile a block computes next, and which part of its k. D's tiles form a
// grid: `left` counts tiles along the rows of the left operand, `right` along those of the right
// one (A and B, or B and A where D is computed transposed). k is counted in pipeline stages. Blocks
// of a cluster get neighbouring tiles and the same k; without clusters each block is a cluster of
// its own.

struct Work {
  int left, right;  // tile coordinates of this block
  int batch;
  int begin, count;  // stages of k
  int part, parts;  // which of how many parts of the tile's k
  int tile;         // number of the cluster's tile
  u32 first_slot;   // of the workspace, for the accumulators of the tile's first part
};

struct TileScheduler {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;  // of the block in its cluster

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
    work.batch = 0;
    const int at = tile;
    const int band = at / (kGroup * rights), in_band = at - band * kGroup * rights;
    const int height = min(lefts - band * kGroup, kGroup);
    const int across = in_band / height;
    work.left = band * kGroup + in_band - across * height;
    work.right = across;
  }

  /// The block's next work; false when there is none.
  __device__ __forceinline__ bool take(Work& work) {
    // Split-K.
    if (next >= tiles * kSplits) return false;
    const int tile = next / kSplits;
    work.tile = tile;
    work.part = next - tile * kSplits;
    work.parts = kSplits;
    work.first_slot = u32(tile) * kSplits;
    work.begin = work.part * stages / kSplits;
    work.count = (work.part + 1) * stages / kSplits - work.begin;
    next += clusters;
    place(work, tile);
    return true;
  }
};
