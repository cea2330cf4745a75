// device:  sm_90a
// problem: fp64 T N 2048 2048 2048 align=16
// config:  cuda_mma block_m=64 block_n=64 block_k=16 warps_m=2 warps_n=2 stages=6 instruction_k=8 bits_a=2 base_a=5 shift_a=0 bits_b=2 base_b=5 shift_b=0 ahead=1 group=8 splits=1

// ---- parameters ----
using TypeA = double;             // elements of A
using TypeB = double;             // elements of B
using TypeD = double;             // elements of C and D
using Acc = double;               // accumulators
using Real = double;              // what the epilogue computes in
using Fragment = double;          // a register of an operand
constexpr int kBlockM = 64;       // rows of D in a block's tile
constexpr int kBlockN = 64;       // columns of D in it
constexpr int kBlockK = 16;       // k of one stage
constexpr int kWarpsM = 2;        // warps that share the tile's rows
constexpr int kThreads = 128;     // of a block
constexpr int kBlocks = 2;        // that are to fit one SM
constexpr int kTilesM = 2;        // 16 rows each, of a warp
constexpr int kTilesN = 4;        // 8 columns each, of a warp
constexpr int kChunks = 1;        // parts of a step, each with 4 registers of 16 rows of A
constexpr int kStepK = 8;         // k of one step
constexpr int kMmaSums = 4;       // registers of sums of the matrix instruction
constexpr int kMmaA = 4;          // registers of A
constexpr int kMmaB = 2;          // registers of B
constexpr int kStages = 6;        // of the ring
constexpr int kUnit = 16;         // bytes of one copy to shared memory
constexpr int kBitsA = 2;         // of a byte's place in a line of A's tile that are exchanged
constexpr int kBaseA = 5;         // the first of them
constexpr int kShiftA = 0;        // with bits of the line's number from here on
constexpr int kBitsB = 2;         // the same for B
constexpr int kBaseB = 5;         // 
constexpr int kShiftB = 0;        // 
constexpr int kStoreWidth = 2;    // elements of D stored at once
constexpr int kGroup = 8;         // rows of tiles in a band of the rasterization
constexpr bool kAlongKA = false;  // A's neighbours run along k
constexpr bool kAlongKB = false;  // B's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+d"((d)[0]), "+d"((d)[1]), "+d"((d)[2]), "+d"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "d"((a)[0]), "d"((a)[1]), "d"((a)[2]), "d"((a)[3]), \
  "d"((b)[0]), "d"((b)[1])

// ---- cuda/common/ampere_ptx.h ----
// The instructions since Turing and Ampere that kernels are built on, one small named wrapper each:
// copies to shared memory that the copying warp does not wait for, loads of matrices. Addresses are
// 32-bit ones of shared memory.

KILN_DEVICE u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }
/// The compiler forgets what it knows of x, so that what follows from it is worked out here and not
/// kept from where it was worked out before.
KILN_DEVICE void forget(int& x) { asm volatile("" : "+r"(x)); }

/// 16 bytes: the first `valid` from memory, zeros behind them.
KILN_DEVICE void cp_async_16(u32 to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_8(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_4(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `Pending` of this thread's groups of copies are on their way.
template <int Pending>
KILN_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// Four 8×8 matrices of 16-bit elements; lanes 8i to 8i+7 give the rows of matrix i.
KILN_DEVICE void ldmatrix_x4(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
/// The same, each matrix transposed.
KILN_DEVICE void ldmatrix_x4_trans(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
KILN_DEVICE void load_shared_words(u32 (&r)[4], u32 from) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
KILN_DEVICE void load_shared_one(double& r, u32 from) {
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(r) : "r"(from) : "memory");
}
KILN_DEVICE void load_shared_two(double (&r)[2], u32 from) {
  asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(r[0]), "=d"(r[1]) : "r"(from) : "memory");
}
KILN_DEVICE void store_shared_words(u32 to, const u32 (&r)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}
