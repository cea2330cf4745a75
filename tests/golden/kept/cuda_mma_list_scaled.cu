// device:  sm_80
// problem: int8 N T 512 4096 128 groups=16 grouped=list out=bf16 align=16 scale=line:tensor gate=silu
// config:  cuda_mma block_m=64 block_n=64 block_k=128 warps_m=2 warps_n=2 stages=3 instruction_k=32 bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1

// ---- cuda/common/list_abi.h ----
// A list of products as the host hands it over: plain C, no headers, as abi.h.

/// One product, in canonical form, with leading dimensions in elements.
struct KilnListEntry {
  long long m, n, k;
  long long lda, ldb, ldc, ldd;
  const void* a;
  const void* b;
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  const void* scale_a;  // as kiln's Scale says, lines being rows of A and columns of B
  const void* scale_b;
  void* scale_d;
};

// ---- cuda/common/list_chunk.h ----
// What a step that brings a list is given of it. Expects list_abi.h.

/// Some entries of a list, few enough for the parameters of a kernel: `count` of them, from entry
/// `first` on.
struct KilnListChunk {
  long long first, count;
  KilnListEntry entries[26];
};

// ---- parameters ----
using TypeA = i8;                 // elements of A
using TypeB = i8;                 // elements of B
using TypeD = Bfloat;             // elements of C and D
using Acc = i32;                  // accumulators
using Real = float;               // what the epilogue computes in
using Fragment = u32;             // a register of an operand
constexpr int kBlockM = 64;       // rows of D in a block's tile
constexpr int kBlockN = 64;       // columns of D in it
constexpr int kBlockK = 128;      // k of one stage
constexpr int kWarpsM = 2;        // warps that share the tile's rows
constexpr int kThreads = 128;     // of a block
constexpr int kBlocks = 3;        // that are to fit one SM
constexpr int kTilesM = 2;        // 16 rows each, of a warp
constexpr int kTilesN = 4;        // 8 columns each, of a warp
constexpr int kChunks = 1;        // parts of a step, each with 4 registers of 16 rows of A
constexpr int kStepK = 32;        // k of one step
constexpr int kMmaSums = 4;       // registers of sums of the matrix instruction
constexpr int kMmaA = 4;          // registers of A
constexpr int kMmaB = 2;          // registers of B
constexpr int kStages = 3;        // of the ring
constexpr int kUnit = 16;         // bytes of one copy to shared memory
constexpr int kBitsA = 3;         // of a byte's place in a line of A's tile that are exchanged
constexpr int kBaseA = 4;         // the first of them
constexpr int kShiftA = 0;        // with bits of the line's number from here on
constexpr int kBitsB = 3;         // the same for B
constexpr int kBaseB = 4;         // 
constexpr int kShiftB = 0;        // 
constexpr int kStoreWidth = 8;    // elements of D stored at once
constexpr int kGroup = 8;         // rows of tiles in a band of the rasterization
constexpr int kGroupDepth = 128;  // k of one stage
constexpr int kListColumns = 32;  // columns of D in a tile
constexpr int kGroupRows = 64;    // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;   // room in the tables of groups
constexpr bool kAlongKA = true;   // A's neighbours run along k
constexpr bool kAlongKB = true;   // B's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+r"((d)[0]), "+r"((d)[1]), "+r"((d)[2]), "+r"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/common/group_args.h ----
// One product of a list as a call of its own. Expects abi.h, list_abi.h.

/// The list in the workspace.
KILN_DEVICE const KilnListEntry* entries_of(const KilnGpuArgs& args) {
  return static_cast<const KilnListEntry*>(args.workspace);
}

/// The call of one product, seen as a batch's.
KILN_DEVICE KilnGpuArgs args_of_product(const KilnGpuArgs& args, int product) {
  const KilnListEntry& entry = entries_of(args)[product];
  KilnGpuArgs own = args;
  own.m = entry.m;
  own.n = entry.n;
  own.k = entry.k;
  own.lda = entry.lda;
  own.ldb = entry.ldb;
  own.ldc = entry.ldc;
  own.ldd = entry.ldd;
  own.stride_a = own.stride_b = own.stride_c = own.stride_d = 0;
  own.a = entry.a;
  own.b = entry.b;
  own.c = entry.c;
  own.d = entry.d;
  own.bias = entry.bias;
  own.residual = entry.residual;
  // Less what output_of() adds for a batch.
  own.scale_a = static_cast<const float*>(entry.scale_a) - product * entry.m;
  own.scale_b = static_cast<const float*>(entry.scale_b) - product;
  return own;
}
