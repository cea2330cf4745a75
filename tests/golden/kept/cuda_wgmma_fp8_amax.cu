// device:  sm_90a
// problem: fp8 N T 4096 4096 4096 out=fp8_e4m3 align=16 scale=tensor scale_d=tensor amax=1
// config:  cuda_wgmma left=128 right=128 stages=5 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=1

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
  const void* scale_a;  // as kiln's Scale says, lines being rows of A and columns of B
  const void* scale_b;
  const void* zero_b;  // as kiln's Zero says
  const void* groups;  // an int for each, as kiln's Grouping says
  void* scale_d;  // as kiln's Scale says, lines being rows of D
  const void* zero_a;         // 32-bit integers, as kiln's Scale says
  const void* column_sums_b;  // those of op(B), 32-bit integers
  const void* index_a;  // an int for each row of the product: its row of A, of D
  const void* index_d;
  long long rows_of_a, rows_of_d;
  void* amax_d;  // one fp32
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};

// ---- parameters ----
using TypeA = Float8E4;                         // elements of A
using TypeB = Float8E4;                         // elements of B
using TypeD = Float8E4;                         // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr float kLargestD = 448.0f;             // the largest number of D's type
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 5;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
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

// ---- cuda/common/amax.h ----
// The largest magnitude of D. Each lane keeps that of the elements it finished, as the bits of a
// float without its sign: they are ordered as magnitudes are, those of NaN above all. A maximum has
// no order, so that the same call gives the same bits. Expects convert.h.

KILN_DEVICE u32 larger_magnitude(u32 largest, Real x) {
  return max(largest, float_to_bits(float(x)) & 0x7fffffffu);
}

/// By all lanes of a warp together.
KILN_DEVICE void raise_amax(u32* amax, u32 largest) {
  _Pragma("unroll") for (int apart = 16; apart > 0; apart /= 2)
    largest = max(largest, __shfl_xor_sync(0xffffffff, largest, apart));
  if (threadIdx.x % 32 == 0 && largest > 0) atomicMax(amax, largest);
}

/// One thread, before the blocks of the same call begin.
extern "C" __global__ void kiln_clear(const __grid_constant__ KilnGpuArgs args) {
  *static_cast<u32*>(args.amax_d) = 0;
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
  const float* scale_a;  // one a row, or one
  const float* scale_b;  // one a column, or one
  float inverse_d;  // of D's scale
  u32* amax;
  mutable u32 largest;  // of the elements that this lane finished
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
  out.scale_a = static_cast<const float*>(args.scale_a) + batch;
  out.scale_b = static_cast<const float*>(args.scale_b) + batch;
  out.inverse_d = 1.0f / static_cast<const float*>(args.scale_d)[batch];
  out.amax = static_cast<u32*>(args.amax_d);
  out.largest = 0;
  return out;
}

/// A sum with the scales of its row and column; those outside D read nothing.
KILN_DEVICE Real scaled(const Output& out, Real x, i64 row, i64 column) {
  x = product(x, *out.scale_a);
  x = product(x, *out.scale_b);
  return x;
}

KILN_DEVICE Real finish(const Output& out, Real x, i64 row, i64 column) { return x; }

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
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    sums[i + e] = kept(scaled(out, first_real(sums[i + e]), row_of(l, r), column_of(l, r)));
  }
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    sums[i + e] = kept(product(first_real(sums[i + e]), out.alpha));
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    if (row_of(l, r) < out.rows && column_of(l, r) < out.columns)
      out.largest = larger_magnitude(out.largest, real_of(sums[i + e]));
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
  raise_amax(out.amax, out.largest);
}

// ---- cuda/wgmma/quantise.h ----
// D as codes with one scale for all.
// Expects epilogue.h, store.h and, where the scales follow from D, quantise_ptx.h.

/// A warpgroup's values become numbers of D's type times their scale.
KILN_DEVICE void divide_by_scales(Acc (&sums)[kSubtiles][kSums], const Output& out) {
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int i = 0; i < kSums; ++i)
      sums[s][i] = kept(product(real_of(sums[s][i]), out.inverse_d));
}

/// Two codes, the first in the low byte.
template <typename Code>
KILN_DEVICE u32 pack_codes(Real low, Real high, Code) {
  return pack_two(low, high, Code{});
}
/// Codes of a warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into the buffer at
/// `buffer` of the warp's. `units`: a lane's places in the units of 16 bytes of the first one,
/// whose swizzle is the same eight rows on.
KILN_DEVICE void fill_codes(const Acc (&sums)[kSums], int j, const u32 (&units)[kChunk / 16],
                            u32 buffer) {
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; ++g)
    _Pragma("unroll") for (int half = 0; half < 2; ++half) {
      const int i = (j + g) * 4 + half * 2;
      const u32 two = pack_codes(real_of(sums[i]), real_of(sums[i + 1]), TypeD{});
      store_shared_codes(units[g / 2] + buffer + half * 8 * kPitch + g % 2 * 8, two);
    }
}

/// A warp's 16 left rows by kRightTile right rows; (left, right) is D's element at their beginning.
KILN_DEVICE void copy_codes(const Acc (&sums)[kSums], const Work& work, const KilnGpuArgs& args,
                            const Output& out, const KilnTensorMap* map_d, u32 buffers, i64 left,
                            i64 right, int s, int lane) {
  constexpr int kChunks = kRightTile / kChunk;
  u32 units[kChunk / 16];
  _Pragma("unroll") for (int u = 0; u < kChunk / 16; ++u)
    units[u] = buffers + swizzled(lane / 4, u) + lane % 4 * 2;
  _Pragma("unroll") for (int chunk = 0; chunk < kChunks; ++chunk) {
    const u32 buffer = (s * kChunks + chunk) % kStoreBuffers * kBufferBytes;
    const u32 here = buffers + buffer;
    const i64 r = right + chunk * kChunk;
    // An odd number of chunks leaves the first buffer to the last store of the tile before.
    if (lane == 0) {
      if (s == 0 && chunk == 0)
        tma_store_wait_read<0>();
      else
        tma_store_wait_read<kStoreBuffers - 1>();
    }
    __syncwarp();
    fill_codes(sums, chunk * (kChunk / 8), units, buffer);
    fence_async_shared();
    __syncwarp();
    if (lane == 0) {
      tma_store_3d(map_d, here, int(column_of(left, r)), int(row_of(left, r)), work.batch);
      tma_store_commit();
    }
  }
}

/// One warpgroup's part of a tile of D, whose rows of the left operand start at `row_offset`;
/// `tile` says how many it has stored.
KILN_DEVICE void store_codes(Acc (&sums)[kSubtiles][kSums], const Work& work,
                             const KilnGpuArgs& args, const Output& out, const KilnTensorMap* map_d,
                             u32 buffers, u32 row_offset, int group, int thread, u32 tile) {
  const int warp = thread / 32, lane = thread & 31;
  const i64 left = i64(work.left) * kLeftTile + row_offset + warp * 16;
  const i64 right = i64(work.right) * kRightTile;
  const i64 my_left = left + lane / 4, my_right = right + lane % 4 * 2;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int i = 0; i < kSums; i += kTogether)
      finish_sums(sums[s], out, my_left + s * 64, my_right, i);
  divide_by_scales(sums, out);
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    copy_codes(sums[s], work, args, out, map_d,
               buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes, left + s * 64, right,
               s, lane);
  raise_amax(out.amax, out.largest);
}

/// One warpgroup's part of a tile, whose rows of the left operand start at `row_offset`; `tile`
/// says how many it has stored.
KILN_DEVICE void store_quantised(Acc (&sums)[kSubtiles][kSums], const Work& work,
                                 const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                                 u32 row_offset, int group, int thread, u32 tile) {
  const Output out = output_of(args, work.batch);
  store_codes(sums, work, args, out, map_d, buffers, row_offset, group, thread, tile);
}
