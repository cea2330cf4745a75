// Written by kiln 0.3.0.
// device:  sm_90a
// problem: bf16 N T 4096 4096 4096 align=16
// config:  cuda_wgmma left=128 right=128 stages=6 warpgroups=2 pingpong=1 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0
// compile: nvcc -cubin --gpu-architecture=sm_90a --std=c++17 -o kernel.cubin kiln_cuda_wgmma_d163cf9419dcbc25.cu

// ---- cuda/common/abi.h ----
// The contract between a generated GPU kernel and whoever launches it: plain C, no headers, so that
// a generated source stays self-contained (this file is pasted into it).

/// One call, in canonical form: D row-major, A either [m,k] (k-major) or [k,m], B either [n,k]
/// (k-major) or [k,n]; which one is a constant of the kernel. Strides and ld count elements. The
/// first parameter of every kernel, by value; tensor maps follow it in the order of GpuLaunch.
struct KilnGpuArgs {
  const void* a;
  const void* b;
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  void* workspace;       // 256-byte aligned
  long long m, n, k, batch;
  long long lda, ldb, ldc, ldd;
  long long stride_a, stride_b, stride_c, stride_d;
  double alpha, beta;
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};

// ---- cuda/common/types.h ----
// Names of the element types and the mark of device functions. No headers are used anywhere, so
// that a generated source is self-contained.

#define KILN_DEVICE static __device__ __forceinline__
// A kernel takes what it needs of the shared parts; the rest is no mistake.
#pragma nv_diag_suppress 177

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

/// Storage of the small formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
struct Float8E4 {
  u8 bits;
};
struct Float8E5 {
  u8 bits;
};

static __device__ constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 6;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 128;             // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 4;                     // warps that read one stage
constexpr int kRegions = 1;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
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
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63}"
#define KILN_WGMMA_OPERANDS "%64, %65, p, 1, 1, 0, 0"
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

// ---- cuda/common/convert_ptx.h ----
// Conversions of one instruction, on the bits of small floats. Rounding is to nearest even. Of two
// values in a register the first is in the low half. Expects types.h.

KILN_DEVICE float half_to_float(u16 bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}
KILN_DEVICE u16 float_to_half(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
KILN_DEVICE u32 floats_to_halves(float low, float high) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
/// Saturates; NaN becomes 0.
KILN_DEVICE i32 float_to_int(float x) {
  i32 y;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
KILN_DEVICE u16 float_to_bfloat(float x) {
  u16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
KILN_DEVICE u32 floats_to_bfloats(float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// ---- cuda/common/convert.h ----
// Between stored elements and the type that sums are finished in (Real). Rounding is to nearest
// even; integers saturate. Expects convert_ptx.h and the parameters.

KILN_DEVICE float bits_to_float(u32 bits) { return __int_as_float(int(bits)); }
KILN_DEVICE u32 float_to_bits(float x) { return u32(__float_as_int(x)); }

KILN_DEVICE Real to_real(float x, float) { return Real(x); }
KILN_DEVICE Real to_real(double x, double) { return Real(x); }
KILN_DEVICE Real to_real(i8 x, i8) { return Real(x); }
KILN_DEVICE Real to_real(u8 x, u8) { return Real(x); }
KILN_DEVICE Real to_real(i32 x, i32) { return Real(x); }
KILN_DEVICE Real to_real(Bfloat x, Bfloat) { return Real(bits_to_float(u32(x.bits) << 16)); }
KILN_DEVICE Real to_real(Half x, Half) { return Real(half_to_float(x.bits)); }
template <typename T>
KILN_DEVICE Real to_real(T x) {
  return to_real(x, T{});
}

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
KILN_DEVICE i32 from_real(Real x, i32) { return float_to_int(float(x)); }
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) { return Half{float_to_half(float(x))}; }
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  return Bfloat{float_to_bfloat(float(x))};
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  return floats_to_halves(float(low), float(high));
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  return floats_to_bfloats(float(low), float(high));
}

// ---- cuda/common/epilogue.h ----
// What happens to a sum: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  // Nothing reads these two: stored kernels, which are known by their tokens, have them.
  const TypeD* residual;
  const Real* bias;
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
};

KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.residual = static_cast<const TypeD*>(args.residual) + batch * args.stride_d;
  out.bias = static_cast<const Real*>(args.bias);
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  return out;
}

KILN_DEVICE Real finish(const Output& out, Real x, i64 row, i64 column) { return x; }

// ---- cuda/common/workspace.h ----
// What lies where in the workspace: counters (zero between calls), packed A, packed B, then
// partial accumulators. Worked out from the call, so that the same code serves every size.

/// A packed operand: `length` neighbours a line. Elements of 16 bits keep their direction, which
/// the matrix instruction can turn; others are turned to run along k.
template <typename T, bool AlongK>
struct PackedShape {
  static constexpr bool kTurned = !AlongK && sizeof(T) != 2;
  i64 length, lines;
  static __device__ __forceinline__ PackedShape of(i64 rows, i64 k) {
    return AlongK || kTurned ? PackedShape{k, rows} : PackedShape{rows, k};
  }
  __device__ __forceinline__ i64 pitch() const {
    return ceil_div(length * i64(sizeof(T)), 128) * 128;
  }
  __device__ __forceinline__ i64 bytes() const { return pitch() * lines; }
};
using PackedA = PackedShape<TypeA, kAlongKA>;
using PackedB = PackedShape<TypeB, kAlongKB>;

KILN_DEVICE i64 packed_a_at() { return kCounterBytes; }
KILN_DEVICE i64 packed_b_at(const KilnGpuArgs& args) {
  const i64 bytes = kPackA ? PackedA::of(args.m, args.k).bytes() * args.batch : 0;
  return packed_a_at() + ceil_div(bytes, 256) * 256;
}
KILN_DEVICE i64 sums_at(const KilnGpuArgs& args) {
  const i64 bytes = kPackB ? PackedB::of(args.n, args.k).bytes() * args.batch : 0;
  return packed_b_at(args) + ceil_div(bytes, 256) * 256;
}

// ---- cuda/common/hopper_ptx.h ----
// The instructions of Hopper that kernels are built on, one small named wrapper each: barriers in
// shared memory, the copy engine, warpgroup bookkeeping. Addresses are 32-bit ones of shared
// memory.

KILN_DEVICE u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }

KILN_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers visible to the copy engine and to the other blocks of the cluster.
KILN_DEVICE void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
KILN_DEVICE void mbarrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Arrives at the barrier of the same place in block `rank` of the cluster. Only wgmma and the copy
/// engine touch what the barrier guards, so the default scope is enough; with a release of cluster
/// scope each arrival waited for about 1 us (H200).
KILN_DEVICE void mbarrier_arrive_at(u32 barrier, u32 rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
KILN_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Waits until the phase of this parity is over.
KILN_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
KILN_DEVICE void tensor_map_prefetch(const KilnTensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// Copies a box whose first element is (x, y, z) into shared memory; its bytes count at `barrier`.
/// `hint` is a cache policy of L2.
KILN_DEVICE void tma_load_3d(u32 to, const KilnTensorMap* map, u32 barrier, int x, int y, int z,
                             u64 hint) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(hint)
      : "memory");
}
/// The same into the same place of every block in `mask`, counting at each one's barrier.
KILN_DEVICE void tma_load_multicast_3d(u32 to, const KilnTensorMap* map, u32 barrier, int x, int y,
                                       int z, u16 mask, u64 hint) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%4, %5, %6}], [%2], %3, %7;" ::"r"(to),
      "l"(map), "r"(barrier), "h"(mask), "r"(x), "r"(y), "r"(z), "l"(hint)
      : "memory");
}
KILN_DEVICE void tma_store_3d(const KilnTensorMap* map, u32 from, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(from), "r"(x), "r"(y), "r"(z)
      : "memory");
}
KILN_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until at most `Pending` stores still read shared memory.
template <int Pending>
KILN_DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}
/// Until every store has reached memory.
KILN_DEVICE void tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/// Ordinary stores to shared memory become visible to the copy engine.
KILN_DEVICE void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
KILN_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
KILN_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
KILN_DEVICE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
KILN_DEVICE void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

template <int Count>
KILN_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
KILN_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

/// Stores four 8×8 matrices of 16-bit elements; lanes 8i to 8i+7 give the rows of matrix i.
KILN_DEVICE void stmatrix_x4(u32 to, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}
KILN_DEVICE void stmatrix_x2(u32 to, u32 r0, u32 r1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(r0),
               "r"(r1)
               : "memory");
}
/// The same, each matrix transposed.
KILN_DEVICE void stmatrix_x4_trans(u32 to, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}
KILN_DEVICE void stmatrix_x2_trans(u32 to, u32 r0, u32 r1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(r0),
               "r"(r1)
               : "memory");
}

// ---- cuda/common/grid_ptx.h ----
// Grids that overlap with the one before and the one behind, since Hopper.

/// Waits until the grid that this one was launched behind has finished and its memory is visible.
KILN_DEVICE void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the grid behind this one start before this one ends.
KILN_DEVICE void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- cuda/wgmma/pack.cu ----
// Copies one operand into the workspace so that the copy engine can address it: k-major, rows a
// multiple of 128 bytes apart. Expects hopper_ptx.h, grid_ptx.h,
// workspace.h and the parameters.

// ---- cuda/wgmma/wgmma_ptx.h ----
// Hopper's warpgroup matrix instruction, of the shape that the parameters chose, and what it waits
// for. The macros KILN_WGMMA… hold what only text can give: the instruction's name and its lists of
// operands.

KILN_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
KILN_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
KILN_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// Keeps the compiler from moving uses of a sum across a wait.
KILN_DEVICE void pin(Acc& sum) { asm volatile("" : "+" KILN_WGMMA_REGISTER(sum)::"memory"); }

/// sums (+)= left · right over one k step of 32 bytes; `accumulate` 0 starts anew.
KILN_DEVICE void wgmma_m64(Acc (&sums)[kSums], u64 left, u64 right, int accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %" KILN_WGMMA_ACCUMULATE ", 0;\n"  //
      KILN_WGMMA_NAME " " KILN_WGMMA_SUMS ", " KILN_WGMMA_OPERANDS
      ";\n"  //
      "}"
      : KILN_WGMMA_TIED(sums)
      : "l"(left), "l"(right), "r"(accumulate));
}

// ---- cuda/wgmma/wgmma.h ----
// The descriptors that Hopper's warpgroup matrix instruction takes of operands in shared memory.

/// How an operand lies in shared memory, rows of 128 bytes in atoms of 8 rows, 16-byte units
/// swizzled by the row: (byte offset >> 4) fields of the descriptor's low word, then bits 32 and
/// up.
constexpr u64 kAtomBytes = 1024;
constexpr u64 kSwizzle128 = 1ull << 62;
/// k-major: 8 rows of one atom, atoms 1024 bytes apart; the other distance is not used.
constexpr u64 kAlongK = kSwizzle128 | (kAtomBytes >> 4) << 32 | 1ull << 16;
/// The other way: 8 k of one atom, then the next 8; `kBlock` bytes to the next 64 rows.
static __device__ constexpr u64 across_k(u64 block) {
  return kSwizzle128 | (kAtomBytes >> 4) << 32 | (block >> 4) << 16;
}
/// In a cluster, addresses of shared memory carry the block in their high bits: they are cut off.
KILN_DEVICE u64 descriptor(u64 layout, u32 address) { return layout | ((address & 0x3ffff) >> 4); }

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
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.count = stages;
    next += clusters;
    place(work, tile);
    return true;
  }
};

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

// ---- cuda/wgmma/ring.h ----
// The ring of pipeline stages in shared memory. Expects tile.h.

/// Shared memory: the ring, buffers of stores, barriers.
struct Shared {
  u32 ring, buffers, full, empty, flags;  // flags of shared k, or the tables of groups
  static __device__ __forceinline__ Shared at(u32 base) {
    Shared s;
    s.ring = base;
    s.buffers = base + kStages * kStageBytes;
    s.full = s.buffers + kStoreBytes;
    s.empty = s.full + kStages * 8;
    s.flags = s.empty + kStages * 8;
    return s;
  }
};

/// Where in the ring a warp is, and the parity of that place's barriers.
struct Turn {
  int stage = 0;
  u32 parity = 0;
  __device__ __forceinline__ void step() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void skip(int count) {
    const int at = stage + count;
    parity ^= u32(at / kStages) & 1;
    stage = at % kStages;
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
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k,
                                                        work.batch, rank_right, same_left,
                                                        kLeftHint);
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier,
                                                         work.right * kRightTile, k, work.batch,
                                                         rank_left, same_right, kRightHint);
      turn.step();
    }
  }
}

// ---- cuda/wgmma/consumer.h ----
// What every warpgroup that multiplies does with the ring and its sums. Expects wgmma_ptx.h,
// ring.h.

/// This warp no longer reads a place of the ring: every block that writes to it must know.
KILN_DEVICE void release(u32 empty, int lane) {
  if (lane == 0) mbarrier_arrive(empty);
}

/// All sums, so that the compiler keeps what it does with them on its side of a wait.
KILN_DEVICE void pin_all(Acc (&sums)[kSubtiles][kSums]) {
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) pin(sums[s][r]);
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
    const u64 place = u64(turn.stage) * (kStageBytes >> 4);
    multiply_stage(sums, left0 + place, right0 + place, i);
    wgmma_wait<1>();
    if (i > 0) release(behind, lane);
    behind = shared.empty + turn.stage * 8;
    turn.step();
  }
  // All of the ring that this tile needs has arrived: the other may wait for what follows, and its
  // first instructions queue behind these.
  named_barrier_arrive(kTurnBarrier + 1 - group, 256);
  wgmma_wait<0>();
  pin_all(sums);
  release(behind, lane);
}

// ---- cuda/common/swizzle.h ----
// Where things lie in shared memory so that a warp's accesses meet different banks. Plain functions
// of numbers: a test on the host counts the conflicts of these very lines.

/// The byte of 16-byte unit `unit` of row `row`, rows being `pitch` bytes (16, 32, 64 or 128): the
/// copy engine's swizzle of that width.
KILN_DEVICE constexpr unsigned swizzled_byte(int row, int unit, int pitch) {
  const int shift = pitch == 128 ? 0 : pitch == 64 ? 1 : 2;
  return unsigned(row * pitch + ((unit ^ ((row >> shift) & (pitch / 16 - 1))) << 4));
}

/// The element of row `row` in line `k` of a tile of `rows` rows and `block_k` lines: quads (of
/// `quad` elements, 16 bytes) are exchanged by k. A warp that writes quads of k covers
/// 128 / block_k rows at once, hence the step.
KILN_DEVICE constexpr int quad_place(int k, int row, int rows, int quad, int block_k) {
  const int mask = rows / quad >= 8 ? 7 : rows / quad - 1;
  const int apart = block_k >= 32 ? 1 : 32 / block_k;
  return k * rows + (row / quad ^ (k / 4 * apart & mask)) * quad + row % quad;
}

// ---- cuda/wgmma/store_ptx.h ----
// A warp's accumulators on their way to D: through its buffers in shared memory, in their order.

/// The compiler moves no access of memory across.
KILN_DEVICE void compiler_barrier() { asm volatile("" ::: "memory"); }

// ---- cuda/wgmma/store.h ----
// A warp's sums to D: finished in registers a chunk at a time, then through swizzled buffers of its
// own in shared memory and the copy engine, or coalesced stores, or straight from registers. Warps
// never wait for each other here. Expects epilogue.h, hopper_ptx.h, store_ptx.h.

/// Element (row of left, row of right) of a tile as (row, column) of D.
KILN_DEVICE i64 row_of(i64 left, i64 right) { return kSwap ? right : left; }
KILN_DEVICE i64 column_of(i64 left, i64 right) { return kSwap ? left : right; }

KILN_DEVICE Real real_of(float x) { return x; }
KILN_DEVICE float kept(Real x) { return x; }
KILN_DEVICE Real first_real(float sum) { return sum; }

constexpr int kPart = kChunk / 2;  // sums of one chunk
/// Sums that are finished together: enough loads in flight, few registers beside the sums.
constexpr int kTogether = kPart % 16 == 0 ? 16 : kPart % 8 == 0 ? 8 : 4;

/// The elements of a matrix like D under sums [i, i + kTogether); zero outside. `left`, `right`: of
/// sum 0.
KILN_DEVICE void load_under(Real (&x)[kTogether],
                            const TypeD* from,
                            i64 ld, const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    const i64 row = row_of(l, r), column = column_of(l, r);
    x[e] = row < out.rows && column < out.columns ? to_real(from[row * ld + column]) : Real(0);
  }
}

/// alpha, beta·C and the rest for sums [i, i + kTogether), in place.
KILN_DEVICE void finish_sums(Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                             int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    sums[i + e] = kept(product(first_real(sums[i + e]), out.alpha));
  if (out.c) {
    Real c[kTogether];
    load_under(c, out.c, out.ldc, out, left, right, i);
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
      sums[i + e] = kept(real_of(sums[i + e]) + out.beta * c[e]);
  }
  // Otherwise loads of later sums move up here, and sums already fill the registers.
  compiler_barrier();
}

KILN_DEVICE TypeD stored(Acc sum, bool exact) {
  return from_real(real_of(sum), TypeD{});
}

constexpr int kPitch = (kSwap ? 16 : kChunk) * int(sizeof(TypeD));  // bytes of a buffer's row

KILN_DEVICE u32 swizzled(int row, int unit) { return swizzled_byte(row, unit, kPitch); }

/// A warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into a buffer.
KILN_DEVICE void fill_buffer(const Acc (&sums)[kSums], int j, u32 buffer, int lane, bool) {
  const auto two = [&](int i) { return pack_two(real_of(sums[i]), real_of(sums[i + 1]), TypeD{}); };
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; g += kChunk == 8 ? 1 : 2) {
    const int i = (j + g) * 4;
    const int row = lane & 15;
    if constexpr (kChunk == 8)
      stmatrix_x2(buffer + swizzled(row, 0), two(i), two(i + 2));
    else
      stmatrix_x4(buffer + swizzled(row, g + (lane >> 4)), two(i), two(i + 2), two(i + 4),
                  two(i + 6));
  }
}

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(Acc (&sums)[kSubtiles][kSums], const Work& work,
                            const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                            u32 row_offset, int group, int thread) {
  const Output out = output_of(args, work.batch);
  const int warp = thread / 32, lane = thread & 31;
  const i64 left = i64(work.left) * kLeftTile + row_offset + warp * 16;
  const i64 right = i64(work.right) * kRightTile;
  const i64 my_left = left + lane / 4, my_right = right + lane % 4 * 2;
  const bool exact = false;
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int chunk = 0; chunk < kRightTile / kChunk; ++chunk) {
        if (!exact)
          _Pragma("unroll") for (int i = 0; i < kPart; i += kTogether)
            finish_sums(sums[s], out, my_left + s * 64, my_right, chunk * kPart + i);
      const u32 here = mine + (s * (kRightTile / kChunk) + chunk) % kStoreBuffers * kBufferBytes;
      const i64 l = left + s * 64, r = right + chunk * kChunk;
      // An odd number of chunks leaves the first buffer to the last store of the tile before.
      if (lane == 0) {
        if (s == 0 && chunk == 0)
          tma_store_wait_read<0>();
        else
          tma_store_wait_read<kStoreBuffers - 1>();
      }
      __syncwarp();
      fill_buffer(sums[s], chunk * (kChunk / 8), here, lane, exact);
      fence_async_shared();
      __syncwarp();
      if (lane == 0) {
        tma_store_3d(map_d, here, int(column_of(l, r)), int(row_of(l, r)), work.batch);
        tma_store_commit();
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
  // Warpgroups take tiles in turn, and only one at a time may wait for the ring: the parity of a
  // barrier says nothing to a warp that is two phases behind.
  constexpr u32 kRowOffset = 0;
  if (group == 1) named_barrier_arrive(kTurnBarrier, 256);
  for (int i = 0; scheduler.take(work); ++i) {
    if ((i & 1) != group) {
      turn.skip(work.count);
      continue;
    }
    named_barrier_sync(kTurnBarrier + group, 256);
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane);
    const int region = 0;
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
      mbarrier_init(shared.full + i * 8, 1);
      mbarrier_init(shared.empty + i * 8, kReaders * kCluster);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
  const TileScheduler scheduler = scheduler_of(args, rank);
  if (group == kWarpgroups) {
    give_registers<kCopyRegisters>();
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, &map_left, &map_right);
  } else {
    take_registers<kMultiplyRegisters>();
    wait_for_previous_grid();
    let_next_grid_start();
    run_consumer(shared, scheduler, args, &map_d, group);
  }
}
