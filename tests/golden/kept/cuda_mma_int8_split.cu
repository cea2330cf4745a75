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
constexpr int kGroup = 8;             // rows of tiles walked together
constexpr int kCounterBytes = 65536;  // front of the workspace, counters of tiles
constexpr int kSplits = 4;            // parts that k is cut into
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

// ---- cuda/common/work.h ----
// Which tile and which part of k a block works on, and the sum of parts. A tile whose k was cut is
// finished by whichever of its blocks comes last, which adds all parts in the order of k: the same
// call gives the same bits. Expects types.h, and from the parameters the tile.

struct Work {
  i64 batch;
  int m, n;         // of the tile
  int begin, end;   // of k, in passes of kBlockK
  int tile, piece, pieces;
  u32 first_slot;   // where the tile's first piece keeps its sums
};

struct Shares {
  int tiles_m, tiles_n;
  int passes;  // of kBlockK
  int tiles, next;

  static __device__ __forceinline__ Shares of(const KilnGpuArgs& args) {
    Shares s;
    s.tiles_m = int(ceil_div(args.m, kBlockM));
    s.tiles_n = int(ceil_div(args.n, kBlockN));
    s.passes = int(ceil_div(args.k, kBlockK));
    s.tiles = s.tiles_m * s.tiles_n * int(args.batch);
    s.next = int(blockIdx.x);
    return s;
  }

  /// Groups of kGroup rows of tiles are walked together, so that what they share stays in L2.
  __device__ __forceinline__ void place(Work& work, int tile) const {
    const int area = tiles_m * tiles_n;
    work.batch = tile / area;
    const int at = tile - int(work.batch) * area;
    const int band = at / (kGroup * tiles_n), in_band = at - band * kGroup * tiles_n;
    const int height = min(tiles_m - band * kGroup, kGroup);
    work.n = in_band / height;
    work.m = band * kGroup + in_band - work.n * height;
  }

  __device__ __forceinline__ bool take(Work& work) {
    if (next >= tiles * kSplits) return false;
    const int tile = next / kSplits;
    work.tile = tile;
    work.piece = next - tile * kSplits;
    work.pieces = kSplits;
    work.first_slot = u32(tile) * kSplits;
    work.begin = int(i64(work.piece) * passes / kSplits);
    work.end = int(i64(work.piece + 1) * passes / kSplits);
    next += int(gridDim.x);
    place(work, tile);
    return true;
  }
};

KILN_DEVICE u32 count_arrival(u32* counter) {
  u32 before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

/// Where piece `piece` of a tile keeps its sums. Cut evenly, a block holds at most two unfinished
/// pieces: one that ends a tile (slot 2b), one that begins a tile (slot 2b + 1).
KILN_DEVICE u32 slot_of(const Work& work, int piece) {
  return work.first_slot + u32(piece);
}
