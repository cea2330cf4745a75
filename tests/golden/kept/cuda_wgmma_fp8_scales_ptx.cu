// device:  sm_90a
// problem: fp8 N T 256 4096 7168 align=16 scale=1x128:128x128
// config:  cuda_wgmma left=128 right=64 stages=7 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=right group=8 pack_a=0 pack_b=0 keep_right=0 promote=1

// ---- parameters ----
using TypeA = Float8E4;                         // elements of A
using TypeB = Float8E4;                         // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 64;                  // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 7;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 32;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kLeftLines = 1;                   // rows of the left operand that share a scale
constexpr int kRightLines = 128;                // and of the right one
constexpr int kLeftShare = 1;                   // rows of its tile for which a stage has one scale
constexpr int kRightShare = 64;                 // and of the right one's
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
constexpr bool kSwap = false;                   // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31}"
#define KILN_WGMMA_OPERANDS "%32, %33, p, 1, 1"
#define KILN_WGMMA_ACCUMULATE "34"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31])
#define KILN_WGMMA_REGISTER "f"
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/wgmma/scales_ptx.h ----
// Scales: four of memory at once, and those in shared memory, by address.

/// `from` is a multiple of 16 bytes.
KILN_DEVICE void read_four_scales(float (&r)[4], const float* from) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
               : "l"(from)
               : "memory");
}

KILN_DEVICE void store_scale(u32 to, float scale) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(scale) : "memory");
}
KILN_DEVICE float load_scale(u32 from) {
  float scale;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(scale) : "r"(from) : "memory");
  return scale;
}
KILN_DEVICE void load_scales(float (&r)[2], u32 from) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r[0]), "=f"(r[1]) : "r"(from) : "memory");
}
KILN_DEVICE void load_scales(float (&r)[4], u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
               : "r"(from)
               : "memory");
}
