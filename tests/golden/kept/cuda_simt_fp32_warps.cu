// Written by kiln 0.1.0.
// device:  sm_90a
// problem: fp32 N N 4096 4096 4096 align=16
// config:  cuda_simt block_m=128 block_n=256 block_k=16 thread_m=8 thread_n=16 lanes_m=4 spread=1 width_a=1 width_b=4 copy=warps stages=4 ahead=1 lines=padded resident=1 sharing=stream splits=1 group=8 order=folded unroll=8
// compile: nvcc -cubin --gpu-architecture=sm_90a --std=c++17 -o kernel.cubin kiln_cuda_simt_28c7c3606774f52a.cu

// ---- cuda/abi.h ----
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

// ---- cuda/types.h ----
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
using TypeA = float;                  // elements of A
using TypeB = float;                  // elements of B
using TypeD = float;                  // elements of C and D
using Acc = float;                    // sums
using Real = float;                   // what sums are finished in
constexpr int kBlockM = 128;          // rows of D in a block's tile
constexpr int kBlockN = 256;          // columns of D in it
constexpr int kBlockK = 16;           // k of one pass
constexpr int kThreadM = 8;           // rows of a thread's sums
constexpr int kThreadN = 16;          // columns of them
constexpr int kLanesM = 4;            // lanes of a warp along the rows
constexpr bool kSpread = true;        // other lanes' rows and columns lie between a thread's quads
constexpr int kThreads = 256;         // of a block multiply, as many copy
constexpr int kResident = 1;          // blocks of a unit at once
constexpr int kWidthA = 1;            // elements of A read at once
constexpr int kWidthB = 4;            // elements of B read at once
constexpr int kStages = 4;            // tiles of A and B in shared memory
constexpr int kUnroll = 8;            // steps of k of one turn of the loop
constexpr int kCopyRegisters = 32;    // of a thread that copies
constexpr int kSumRegisters = 224;    // of a thread that multiplies
constexpr int kStoreWidth = 4;        // elements of D stored at once
constexpr int kGroup = 8;             // rows of tiles walked together
constexpr int kCounterBytes = 65536;  // front of the workspace, counters of tiles
constexpr bool kAlongKA = true;       // A's neighbours run along k
constexpr bool kAlongKB = false;      // B's neighbours run along k

// ---- cuda/convert.h ----
// Between stored elements and the type that sums are finished in (Real). Rounding is to nearest
// even; integers saturate. Expects types.h and the parameters.

KILN_DEVICE float bits_to_float(u32 bits) { return __int_as_float(int(bits)); }
KILN_DEVICE u32 float_to_bits(float x) { return u32(__float_as_int(x)); }

KILN_DEVICE Real to_real(float x, float) { return Real(x); }
KILN_DEVICE Real to_real(double x, double) { return Real(x); }
KILN_DEVICE Real to_real(i8 x, i8) { return Real(x); }
KILN_DEVICE Real to_real(u8 x, u8) { return Real(x); }
KILN_DEVICE Real to_real(i32 x, i32) { return Real(x); }
KILN_DEVICE Real to_real(Bfloat x, Bfloat) { return Real(bits_to_float(u32(x.bits) << 16)); }
KILN_DEVICE Real to_real(Half x, Half) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return Real(y);
}
template <typename T>
KILN_DEVICE Real to_real(T x) {
  return to_real(x, T{});
}

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
KILN_DEVICE i32 from_real(Real x, i32) {
  i32 y;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(float(x)));
  return y;
}
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) {
  Half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(float(x)));
  return y;
}
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  Bfloat y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(float(x)));
  return y;
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(float(high)), "f"(float(low)));
  return y;
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(float(high)), "f"(float(low)));
  return y;
}

// ---- cuda/epilogue.h ----
// What happens to a sum: alpha, beta·C, bias, activation, residual, in that order, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
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

/// Bias and activation of one element; those outside D read nothing.
KILN_DEVICE Real finish(const Output& out, Real x, i64 row, i64 column) {
  return x;
}

// ---- cuda/swizzle.h ----
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

// ---- cuda/cp_async.h ----
// Copies from memory straight into shared memory, without registers (sm_80 and up). A copy brings
// `valid` bytes and fills the rest with zeros; with none it reads nothing. Expects types.h.

KILN_DEVICE void cp_async_4(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_8(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
/// Past L1.
KILN_DEVICE void cp_async_16(u32 to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
/// Ends a group of copies: everything since the one before.
KILN_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Pending` groups of this thread are on their way.
template <int Pending>
KILN_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
/// Arrives at a barrier in shared memory once all copies of this thread have come.
KILN_DEVICE void cp_async_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// ---- cuda/hopper.h ----
// The instructions of Hopper that kernels are built on, one small named wrapper each: barriers in
// shared memory, the copy engine, warpgroup bookkeeping. Addresses are 32-bit ones of shared memory.

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
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
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

/// Waits until the grid that this one was launched behind has finished and its memory is visible.
KILN_DEVICE void wait_for_previous_grid() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
/// Lets the grid behind this one start before this one ends.
KILN_DEVICE void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- cuda/simt_ring.h ----
// Tiles pass a ring of stages in shared memory: the second half of a block's threads fills it, the
// first empties it, and two barriers a stage say which is whole and which is free. Expects hopper.h
// and cp_async.h.

constexpr int kSumsBarrier = 1;  // of those that multiply; 0 is everybody's

struct Ring {
  u32 barriers;  // of all stages: whole, then free
  int stage;
  u32 parity;    // of the round that the ring is in

  static __device__ __forceinline__ Ring of(u32 barriers) { return Ring{barriers, 0, 0}; }
  /// By one thread, before anybody else has come.
  __device__ __forceinline__ void init() const {
    _Pragma("unroll 1") for (int s = 0; s < kStages; ++s) {
      mbarrier_init(barriers + s * 8, kThreads);
      mbarrier_init(barriers + (kStages + s) * 8, kThreads / 32);
    }
  }
  __device__ __forceinline__ u32 whole() const { return barriers + stage * 8; }
  __device__ __forceinline__ u32 free() const { return barriers + (kStages + stage) * 8; }
  __device__ __forceinline__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// ---- cuda/simt_lanes.h ----
// Which part of a warp's tile a lane takes, and which elements of a tile a thread copies. Plain
// functions of numbers: a test on the host counts what these very lines cost.

/// Lanes of a warp stand in a rectangle of `lanes_m` by 32 / lanes_m. Rows and columns take the
/// bits of a lane's number by turns, columns first: then pairs of lanes read the same of either
/// operand, which halves the accesses that 16 bytes a lane cost.
KILN_DEVICE constexpr int lane_part(int lane, int lanes_m, bool rows) {
  int m = 0, n = 0, bits_m = 1, bits_n = 1;
  for (int bit = 0; bit < 5; ++bit) {
    const bool to_m = bits_n * lanes_m == 32 || (bit % 2 == 1 && bits_m < lanes_m);
    const int set = lane >> bit & 1;
    if (to_m) {
      m += set * bits_m;
      bits_m *= 2;
    } else {
      n += set * bits_n;
      bits_n *= 2;
    }
  }
  return rows ? m : n;
}

/// The element of row `row` in line `k` of a tile whose lines are `pitch` elements apart.
KILN_DEVICE constexpr int line_place(int k, int row, int pitch) { return k * pitch + row; }

/// Where access number `q` to a tile of `rows` rows begins, `width` elements each. Along k, one row
/// is read 8 elements (a sector of 32 bytes) at a time, so that lanes spread over many rows.
KILN_DEVICE constexpr int copied_row(int q, bool along_k, int rows, int width, int block_k) {
  const int piece = block_k < 8 ? block_k : 8;
  return along_k ? q / (piece / width) % rows : q % (rows / width) * width;
}
KILN_DEVICE constexpr int copied_k(int q, bool along_k, int rows, int width, int block_k) {
  const int piece = block_k < 8 ? block_k : 8;
  return along_k ? q % (piece / width) * width + q / (piece / width * rows) * piece
                 : q / (rows / width);
}

// ---- cuda/simt_work.h ----
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
  int cut_tiles;       // the first ones, whose k is cut evenly among all blocks
  int position, last;  // of this block's cut, in passes

  static __device__ __forceinline__ Shares of(const KilnGpuArgs& args) {
    Shares s;
    s.tiles_m = int(ceil_div(args.m, kBlockM));
    s.tiles_n = int(ceil_div(args.n, kBlockN));
    s.passes = int(ceil_div(args.k, kBlockK));
    s.tiles = s.tiles_m * s.tiles_n * int(args.batch);
    s.next = int(blockIdx.x);
    // Whole rounds but the last go tile by tile; the rest, one to two rounds, is cut evenly.
    const int blocks = int(gridDim.x), left_over = s.tiles % blocks;
    s.cut_tiles = left_over == 0 ? 0 : min(s.tiles, left_over + blocks);
    const u32 all = u32(s.cut_tiles) * u32(s.passes);
    s.position = int(u32(s.next) * all / u32(blocks));
    s.last = int(u32(s.next + 1) * all / u32(blocks));
    s.next += s.cut_tiles;
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
    if (position < last) {
      const int depth = passes, blocks = int(gridDim.x), tile = position / depth;
      const u32 all = u32(cut_tiles) * u32(depth), before = u32(tile) * u32(depth);
      work.begin = position - tile * depth;
      work.end = min(depth, work.begin + last - position);
      const int first = int(((before + 1) * u32(blocks) - 1) / all);
      const int final = int(((before + u32(depth)) * u32(blocks) - 1) / all);
      work.pieces = final - first + 1;
      work.piece = int(blockIdx.x) - first;
      work.tile = tile;
      work.first_slot = u32(first) * 2 + 1;
      position += work.end - work.begin;
      place(work, tile);
      return true;
    }
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.end = passes;
    work.tile = tile;
    work.piece = 0;
    work.pieces = 1;
    work.first_slot = 0;
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

// Past L1, which may hold what another block has overwritten since.
KILN_DEVICE void store_past_l1(float* to, float x) {
  asm volatile("st.global.cg.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}
KILN_DEVICE void store_past_l1(double* to, double x) {
  asm volatile("st.global.cg.f64 [%0], %1;" ::"l"(to), "d"(x) : "memory");
}
KILN_DEVICE void store_past_l1(i32* to, i32 x) {
  asm volatile("st.global.cg.s32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
KILN_DEVICE void load_past_l1(float& x, const float* from) {
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
}
KILN_DEVICE void load_past_l1(double& x, const double* from) {
  asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(x) : "l"(from) : "memory");
}
KILN_DEVICE void load_past_l1(i32& x, const i32* from) {
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
}

/// Where piece `piece` of a tile keeps its sums. Cut evenly, a block holds at most two unfinished
/// pieces: one that ends a tile (slot 2b), one that begins a tile (slot 2b + 1).
KILN_DEVICE u32 slot_of(const Work& work, int piece) {
  return piece == 0 ? work.first_slot : work.first_slot + 2 * u32(piece) - 1;
}

/// True for the block that must finish the tile; its sums are then those of all pieces.
KILN_DEVICE bool combine(Acc (&sums)[kThreadM][kThreadN], const Work& work, void* workspace,
                         int thread) {
  if (work.pieces == 1) return true;
  __shared__ int is_last;
  u32* counter = static_cast<u32*>(workspace) + work.tile;
  Acc* partial =
      reinterpret_cast<Acc*>(static_cast<unsigned char*>(workspace) + kCounterBytes) + thread;
  Acc* mine = partial + i64(slot_of(work, work.piece)) * (kBlockM * kBlockN);
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j)
      store_past_l1(mine + (i * kThreadN + j) * kThreads, sums[i][j]);
  __threadfence();
  named_barrier_sync(kSumsBarrier, kThreads);
  if (thread == 0) {
    const bool last = count_arrival(counter) == u32(work.pieces - 1);
    if (last) *counter = 0;
    is_last = last;
  }
  named_barrier_sync(kSumsBarrier, kThreads);
  if (!is_last) return false;
  __threadfence();
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) sums[i][j] = Acc(0);
  for (int piece = 0; piece < work.pieces; ++piece) {
    const Acc* from = partial + i64(slot_of(work, piece)) * (kBlockM * kBlockN);
    _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
      _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) {
        Acc part;
        load_past_l1(part, from + (i * kThreadN + j) * kThreads);
        sums[i][j] += part;
      }
  }
  return true;
}

// ---- cuda/simt_copy.h ----
// Tiles of A and B on their way from memory to shared memory, where line k holds all rows of that
// k side by side. Expects types.h, convert.h, swizzle.h, cp_async.h, simt_lanes.h, and from the
// parameters the tile.

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
KILN_DEVICE Acc widened(i8 x) { return Acc(x); }
KILN_DEVICE Acc widened(u8 x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

constexpr int kQuad = 16 / int(sizeof(Acc));  // elements that one access to shared memory brings

/// Elements that are read or written at once.
template <typename T, int Count>
struct alignas(Count * sizeof(T)) Some {
  T x[Count];
};

/// One operand's tile in shared memory.
template <int Rows>
struct Lines {
  static constexpr int kPitch = Rows + kQuad;
  static constexpr int kElements = kPitch * kBlockK;
  static __device__ __forceinline__ int place(int k, int row) {
    return line_place(k, row, kPitch);
  }
  /// The element of row `first` + `more`, seen from that of row `first` in line 0.
  static __device__ __forceinline__ int from(int first, int k, int more) {
    return line_place(k, more, kPitch);
  }
};

/// Part of one operand's tile that a thread copies, `Width` neighbours at a time.
template <typename T, bool AlongK, int Rows, int Width>
struct Copier {
  static constexpr int kReads = Rows * kBlockK / Width / kThreads;
  static_assert(kReads * Width * kThreads == Rows * kBlockK, "threads share the tile evenly");
  using Read = Some<T, Width>;

  const T* from;  // this thread's first element of the tile that comes next
  i64 ld;
  int row, k;     // of that element in the tile
  int rows;       // of the tile that exist

  __device__ __forceinline__ void start(const T* operand, i64 pitch, i64 first_row, i64 first_k,
                                        i64 all_rows, int thread) {
    ld = pitch;
    row = copied_row(thread, AlongK, Rows, Width, kBlockK);
    k = copied_k(thread, AlongK, Rows, Width, kBlockK);
    rows = int(min(all_rows - first_row, i64(Rows)));
    const i64 r = first_row + row, depth = first_k + k;
    from = operand + (AlongK ? r * ld + depth : depth * ld + r);
  }

  // Accesses of one thread lie constant distances apart.
  static __device__ __forceinline__ constexpr int rows_to(int i) {
    return copied_row(i * kThreads, AlongK, Rows, Width, kBlockK);
  }
  static __device__ __forceinline__ constexpr int k_to(int i) {
    return copied_k(i * kThreads, AlongK, Rows, Width, kBlockK);
  }
  __device__ __forceinline__ const T* at(int i) const {
    return from + (AlongK ? rows_to(i) * ld + k_to(i) : k_to(i) * ld + rows_to(i));
  }
  /// How many elements of access `i` exist, when `depth` lines do.
  __device__ __forceinline__ int valid(int i, int depth) const {
    const int rows_left = rows - row - rows_to(i), k_left = depth - k - k_to(i);
    const int line = AlongK ? rows_left : k_left, along = AlongK ? k_left : rows_left;
    return line > 0 ? max(min(along, Width), 0) : 0;
  }
  __device__ __forceinline__ void next() { from += AlongK ? i64(kBlockK) : kBlockK * ld; }

  /// Sends the next tile on its way into `to`; `depth` of its lines exist.
  template <bool Whole>
  __device__ __forceinline__ void send(u32 to, int depth) const {
    _Pragma("unroll") for (int i = 0; i < kReads; ++i) {
      const u32 place = to + Lines<Rows>::place(k + k_to(i), row + rows_to(i)) * u32(sizeof(Acc));
      const int bytes = (Whole ? Width : valid(i, depth)) * int(sizeof(T));
      if constexpr (sizeof(Read) == 4) cp_async_4(place, at(i), bytes);
      if constexpr (sizeof(Read) == 8) cp_async_8(place, at(i), bytes);
      if constexpr (sizeof(Read) == 16) cp_async_16(place, at(i), bytes);
    }
  }
};

// ---- cuda/simt.cu ----
// Ordinary multiply-adds, for every type and every layout. Each thread keeps kThreadM × kThreadN
// sums; tiles of A and B pass through shared memory, or are read where they lie. Expects abi.h,
// types.h, convert.h, epilogue.h, simt_lanes.h, simt_work.h, and simt_copy.h when tiles are copied.

constexpr int kLanesN = 32 / kLanesM;
constexpr int kWarpsM = kBlockM / (kLanesM * kThreadM);
static_assert(kWarpsM * kLanesM * kThreadM == kBlockM, "warps cover the tile's rows");
static_assert(kThreads / 32 / kWarpsM * kLanesN * kThreadN == kBlockN, "and its columns");

/// How many of a thread's `count` rows or columns lie side by side.
KILN_DEVICE constexpr int run_of(int count) {
  constexpr int kMost = 16 / int(sizeof(Acc));
  return !kSpread ? count : count % kMost == 0 ? kMost : count % 2 == 0 ? 2 : 1;
}
/// How far the i-th of them is from the first, the runs of all lanes coming in between.
KILN_DEVICE constexpr int apart(int i, int count, int lanes) {
  return i / run_of(count) * run_of(count) * lanes + i % run_of(count);
}
constexpr int kRunM = run_of(kThreadM), kRunN = run_of(kThreadN);

/// One step of k. Each product shares a factor with the one before, which spares the register file
/// a read; which way around suits the registers that the assembler gives, measuring tells.
KILN_DEVICE void multiply_line(Acc (&sums)[kThreadM][kThreadN], const Acc (&left)[kThreadM],
                               const Acc (&right)[kThreadN]) {
  _Pragma("unroll") for (int turn = 0; turn < kThreadM * kThreadN; ++turn) {
    // Pairs of rows down one column and up the next, every other pair the other way round.
    const int j = turn / kThreadM, pair = turn % kThreadM / 2, second = (turn + turn / 2) % 2;
    const int i = (j % 2 == 0 ? pair : kThreadM / 2 - 1 - pair) * 2 + second;
    sums[i][j] += left[i] * right[j];
  }
}

/// A thread's rows (or columns) of line `k` of a tile; `own` is the first of them in line 0.
template <int Rows, int Count, int Lanes>
KILN_DEVICE void read_line(Acc (&to)[Count], const Acc* own, int k, int first) {
  constexpr int kTogether = Count % kQuad == 0 ? kQuad : Count % 2 == 0 ? 2 : 1;
  _Pragma("unroll") for (int i = 0; i < Count; i += kTogether) {
    const auto some = *reinterpret_cast<const Some<Acc, kTogether>*>(
        own + Lines<Rows>::from(first, k, apart(i, Count, Lanes)));
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e) to[i + e] = some.x[e];
  }
}

constexpr int kElementsA = Lines<kBlockM>::kElements;
constexpr int kStage = kElementsA + Lines<kBlockN>::kElements;  // elements

/// The factors of one step of k.
struct Factors {
  Acc left[kThreadM], right[kThreadN];
  /// Of line `k` behind those that the two point into.
  __device__ __forceinline__ void read(const Acc* left_line, const Acc* right_line, int k) {
    read_line<kBlockM, kThreadM, kLanesM>(left, left_line, k, 0);
    read_line<kBlockN, kThreadN, kLanesN>(right, right_line, k, 0);
  }
};

KILN_DEVICE TypeD finished(const Output& out, Acc sum, i64 row, i64 column) {
  Real x = Real(sum) * out.alpha;
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  return from_real(x, TypeD{});
}

struct alignas(kStoreWidth * sizeof(TypeD)) Several {
  TypeD x[kStoreWidth];
};
/// Neighbours of one row of D, those inside.
KILN_DEVICE void store_several(const Output& out, const Acc* sums, i64 row, i64 column) {
  TypeD* d = out.d + row * out.ldd + column;
  Several several;
  _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e)
    if (column + e < out.columns) several.x[e] = finished(out, sums[e], row, column + e);
  if (column + kStoreWidth <= out.columns) {
    *reinterpret_cast<Several*>(d) = several;
  } else {
    _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e)
      if (column + e < out.columns) d[e] = several.x[e];
  }
}

KILN_DEVICE void store_sums(const Acc (&sums)[kThreadM][kThreadN], const Output& out, i64 row0,
                            i64 column0, int first_m, int first_n, int) {
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
    const i64 row = row0 + first_m + apart(i, kThreadM, kLanesM);
    if (row >= out.rows) continue;
    _Pragma("unroll") for (int j = 0; j < kThreadN; j += kStoreWidth)
      store_several(out, &sums[i][j], row, column0 + first_n + apart(j, kThreadN, kLanesN));
  }
}

// ---- cuda/simt_fed.cu ----
// The kernel whose tiles are copied by warps of their own, so that those that multiply issue little
// else and never wait for each other. Expects simt.cu and simt_ring.h.

/// Brings one tile's passes of k, stage after stage as they fall free.
KILN_DEVICE void copy_tiles(Ring& ring, const KilnGpuArgs& args, const Work& work, const TypeA* a,
                            const TypeB* b, u32 stages, int thread) {
  Copier<TypeA, kAlongKA, kBlockM, kWidthA> left;
  Copier<TypeB, kAlongKB, kBlockN, kWidthB> right;
  const i64 first_k = i64(work.begin) * kBlockK;
  left.start(a, args.lda, i64(work.m) * kBlockM, first_k, args.m, thread);
  right.start(b, args.ldb, i64(work.n) * kBlockN, first_k, args.n, thread);
  const int whole = left.rows == kBlockM && right.rows == kBlockN ? int(args.k / kBlockK) : 0;
  _Pragma("unroll 1") for (int pass = work.begin; pass < work.end; ++pass) {
    const u32 to = stages + ring.stage * u32(kStage * sizeof(Acc));
    const u32 right_to = to + u32(kElementsA * sizeof(Acc));
    mbarrier_wait(ring.free(), ring.parity ^ 1);
    if (pass < whole) {
      left.template send<true>(to, kBlockK);
      right.template send<true>(right_to, kBlockK);
    } else {
      const int depth = int(min(args.k - i64(pass) * kBlockK, i64(kBlockK)));
      left.template send<false>(to, depth);
      right.template send<false>(right_to, depth);
    }
    cp_async_arrive(ring.whole());
    left.next();
    right.next();
    ring.next();
  }
}

/// Multiplies them. The factors of the next step are read while those of this one are multiplied; a
/// turn of the loop is short enough to stay in the nearest cache of instructions.
KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], Ring& ring, const Work& work,
                              const Acc* stages, int first_m, int first_n, int lane) {
  constexpr int kTurns = kBlockK / kUnroll;
  if (work.begin == work.end) return;
  mbarrier_wait(ring.whole(), ring.parity);
  const Acc* left = stages + ring.stage * kStage + first_m;
  const Acc* right = stages + ring.stage * kStage + kElementsA + first_n;
  Factors factors[2];
  factors[0].read(left, right, 0);
  int of_stage = kTurns;
  _Pragma("unroll 1") for (int turns = (work.end - work.begin) * kTurns; turns > 0; --turns) {
    _Pragma("unroll") for (int k = 0; k + 1 < kUnroll; ++k) {
      factors[(k + 1) % 2].read(left, right, k + 1);
      multiply_line(sums, factors[k % 2].left, factors[k % 2].right);
    }
    if (--of_stage > 0) {
      left += kUnroll * Lines<kBlockM>::kPitch;
      right += kUnroll * Lines<kBlockN>::kPitch;
      factors[0].read(left, right, 0);
    } else {
      __syncwarp();
      if (lane == 0) mbarrier_arrive(ring.free());
      ring.next();
      of_stage = kTurns;
      if (turns > 1) {
        mbarrier_wait(ring.whole(), ring.parity);
        left = stages + ring.stage * kStage + first_m;
        right = stages + ring.stage * kStage + kElementsA + first_n;
        factors[0].read(left, right, 0);
      }
    }
    multiply_line(sums, factors[1].left, factors[1].right);
  }
}

KILN_DEVICE unsigned char* ring_memory() {
  extern __shared__ __align__(16) unsigned char shared[];
  return shared;
}

extern "C" __global__ void __launch_bounds__(2 * kThreads, kResident)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  unsigned char* shared = ring_memory();
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0), lane = int(threadIdx.x) & 31;
  const u32 stages = shared_address(shared);
  Ring ring = Ring::of(stages + u32(kStages * kStage * sizeof(Acc)));
  if (threadIdx.x == 0) {
    ring.init();
    mbarrier_init_fence();
  }
  __syncthreads();
  Shares shares = Shares::of(args);
  Work work;
  if (warp >= kThreads / 32) {
    give_registers<kCopyRegisters>();
    while (shares.take(work))
      copy_tiles(ring, args, work, static_cast<const TypeA*>(args.a) + work.batch * args.stride_a,
                 static_cast<const TypeB*>(args.b) + work.batch * args.stride_b, stages,
                 int(threadIdx.x) - kThreads);
    cp_async_commit();
    cp_async_wait<0>();
    return;
  }
  take_registers<kSumRegisters>();
  const int first_m = warp % kWarpsM * kLanesM * kThreadM + lane_part(lane, kLanesM, true) * kRunM;
  const int first_n = warp / kWarpsM * kLanesN * kThreadN + lane_part(lane, kLanesM, false) * kRunN;
  while (shares.take(work)) {
    Acc sums[kThreadM][kThreadN] = {};
    sum_products(sums, ring, work, reinterpret_cast<const Acc*>(shared), first_m, first_n, lane);
    if (!combine(sums, work, args.workspace, int(threadIdx.x))) continue;
    store_sums(sums, output_of(args, work.batch), i64(work.m) * kBlockM, i64(work.n) * kBlockN,
               first_m, first_n, int(threadIdx.x));
  }
}
