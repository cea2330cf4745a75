// device:  sm_90a
// problem: fp32 N N 4096 4096 4096 align=16 numerics=tensor
// config:  cuda_wgmma left=128 right=128 stages=3 warpgroups=2 pingpong=0 swap=1 cluster_left=2 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=1 pack_b=1 keep_right=0 promote=1 halves=1

// ---- parameters ----
using TypeA = float;                            // elements of A
using TypeB = float;                            // elements of B
using TypeD = float;                            // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 3;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 2;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kChunk = 32;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kCopyRegisters = 40;              // of the warps that copy
constexpr int kMultiplyRegisters = 232;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = true;                   // A is copied into the workspace first
constexpr bool kPackB = true;                   // B is copied into the workspace first
constexpr bool kAlongKA = true;                 // A's neighbours run along k
constexpr bool kAlongKB = false;                // B's neighbours run along k
constexpr bool kSwap = true;                    // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"
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
/// One of the two parts that fp32 is split into, always k-major.
using PackedA = PackedShape<Half, true>;
using PackedB = PackedShape<Half, true>;

/// Both parts of an operand's batches, behind which lie the exponents of its rows.
KILN_DEVICE i64 parts_bytes(const KilnGpuArgs& args, i64 rows) {
  return PackedA::of(rows, args.k).bytes() * 2 * args.batch;
}
KILN_DEVICE i64 split_bytes(const KilnGpuArgs& args, i64 rows) {
  return parts_bytes(args, rows) + rows * args.batch * i64(sizeof(i32));
}
KILN_DEVICE i64 packed_a_at() { return kCounterBytes; }
KILN_DEVICE i64 packed_b_at(const KilnGpuArgs& args) {
  return packed_a_at() + ceil_div(split_bytes(args, args.m), 256) * 256;
}
KILN_DEVICE i64 sums_at(const KilnGpuArgs& args) {
  return packed_b_at(args) + ceil_div(split_bytes(args, args.n), 256) * 256;
}
KILN_DEVICE i64 exponents_a_at(const KilnGpuArgs& args) {
  return packed_a_at() + parts_bytes(args, args.m);
}
KILN_DEVICE i64 exponents_b_at(const KilnGpuArgs& args) {
  return packed_b_at(args) + parts_bytes(args, args.n);
}

// ---- cuda/wgmma/split.cu ----
// Splits fp32 operands into two parts of half precision, k-major in the workspace: x · 2^e = high +
// low · 2^-11, where e brings the largest magnitude of the row below 2^15. The parts keep 22 bits
// of elements down to 2^-29 of the largest, and 2^-51 of it of those below. An infinity becomes a
// NaN: its low part is one. Expects convert.h, grid_ptx.h, workspace.h and the parameters.

constexpr float kLowUnit = 0x1p-11f;  // what a low part counts in

/// Rows of one operand, and where their parts and exponents go. `rows` of each batch.
struct Splitting {
  const float* from;
  unsigned char* to;
  i32* exponents;
  i64 rows, k, batches, ld, stride;
  i64 pitch, part_bytes;
};

constexpr int kSplitThreads = 256;

KILN_DEVICE u32 magnitude(float x) { return float_to_bits(x) & 0x7fffffff; }
/// `most`: the largest magnitude of a row. Below 2^-112 all of fp32's bits fit as they are.
KILN_DEVICE i32 exponent_for(u32 most) { return min(141 - i32(most >> 23), 126); }
KILN_DEVICE float power_of_two(i32 e) { return bits_to_float(u32(e + 127) << 23); }

/// Two neighbours along k, scaled, from `k` on of a row whose first part starts at `line`.
KILN_DEVICE void store_parts(const Splitting& s, unsigned char* line, i64 k, float x, float y) {
  const u32 high = floats_to_halves(x, y);
  const auto rest = [](float all, u16 part) { return (all - half_to_float(part)) / kLowUnit; };
  const u32 low = floats_to_halves(rest(x, u16(high)), rest(y, u16(high >> 16)));
  *reinterpret_cast<u32*>(line + k * 2) = high;
  *reinterpret_cast<u32*>(line + s.part_bytes + k * 2) = low;
}

KILN_DEVICE unsigned char* line_of(const Splitting& s, i64 batch, i64 row) {
  return s.to + batch * 2 * s.part_bytes + row * s.pitch;
}

/// A block for each row; what it reads again comes from L1.
KILN_DEVICE void split_along(const Splitting& s) {
  __shared__ u32 most_of[kSplitThreads / 32];
  const int thread = int(threadIdx.x);
  for (i64 any = blockIdx.x; any < s.rows * s.batches; any += gridDim.x) {
    const i64 batch = any / s.rows, row = any - batch * s.rows;
    const float* from = s.from + batch * s.stride + row * s.ld;
    u32 most = 0;
    _Pragma("unroll 8") for (i64 k = thread; k < s.k; k += kSplitThreads)
      most = max(most, magnitude(from[k]));
    _Pragma("unroll") for (int apart = 16; apart > 0; apart /= 2)
      most = max(most, __shfl_xor_sync(0xffffffff, most, apart));
    if (thread % 32 == 0) most_of[thread / 32] = most;
    __syncthreads();
    _Pragma("unroll") for (u32 other : most_of) most = max(most, other);
    const i32 exponent = exponent_for(most);
    if (thread == 0) s.exponents[any] = exponent;
    const float scale = power_of_two(exponent);
    unsigned char* line = line_of(s, batch, row);
    _Pragma("unroll 4") for (i64 k = thread * 2; k < s.k; k += kSplitThreads * 2)
      store_parts(s, line, k, from[k] * scale, k + 1 < s.k ? from[k + 1] * scale : 0.0f);
    // The maxima may be written again only when every thread has read them.
    __syncthreads();
  }
}

/// Rows are neighbours in memory: a block for 16 of them, turned over 64 of k at a time.
KILN_DEVICE void split_across(const Splitting& s) {
  constexpr int kRows = 16, kLines = kSplitThreads / kRows, kDeep = 64;
  __shared__ u32 most_of[kSplitThreads / 32][kRows];
  // One element more a row keeps the writes down a column on different banks.
  __shared__ float tile[kRows][kDeep + 1];
  const int thread = int(threadIdx.x), mine = thread % kRows, line = thread / kRows;
  const i64 groups = ceil_div(s.rows, kRows);
  for (i64 any = blockIdx.x; any < groups * s.batches; any += gridDim.x) {
    const i64 batch = any / groups, row0 = (any - batch * groups) * kRows;
    const bool there = row0 + mine < s.rows;
    // A row that is not there repeats the last.
    const float* from = s.from + batch * s.stride + min(row0 + mine, s.rows - 1);
    u32 most = 0;
    _Pragma("unroll 8") for (i64 k = line; k < s.k; k += kLines)
      most = max(most, magnitude(from[k * s.ld]));
    most = max(most, __shfl_xor_sync(0xffffffff, most, 16));
    if (thread % 32 < kRows) most_of[thread / 32][mine] = most;
    __syncthreads();
    _Pragma("unroll") for (int warp = 0; warp < kSplitThreads / 32; ++warp)
      most = max(most, most_of[warp][mine]);
    const i32 exponent = exponent_for(most);
    if (line == 0 && there) s.exponents[batch * s.rows + row0 + mine] = exponent;
    const float scale = power_of_two(exponent);
    for (i64 k0 = 0; k0 < s.k; k0 += kDeep) {
      float some[kDeep / kLines];
      _Pragma("unroll") for (int i = 0; i < kDeep / kLines; ++i) {
        const i64 k = k0 + line + i * kLines;
        some[i] = k < s.k ? from[k * s.ld] * scale : 0.0f;
      }
      __syncthreads();
      _Pragma("unroll") for (int i = 0; i < kDeep / kLines; ++i)
        tile[mine][line + i * kLines] = some[i];
      __syncthreads();
      const int row = thread / kRows, at = thread % kRows * 4;
      if (row0 + row >= s.rows || k0 + at >= s.k) continue;
      unsigned char* to = line_of(s, batch, row0 + row);
      store_parts(s, to, k0 + at, tile[row][at], tile[row][at + 1]);
      store_parts(s, to, k0 + at + 2, tile[row][at + 2], tile[row][at + 3]);
    }
  }
}

KILN_DEVICE Splitting splitting_of(const void* from, i64 to, i64 exponents, i64 rows, i64 ld,
                                   i64 stride, const KilnGpuArgs& args) {
  auto* workspace = static_cast<unsigned char*>(args.workspace);
  const auto shape = PackedA::of(rows, args.k);
  return {static_cast<const float*>(from),
          workspace + to,
          reinterpret_cast<i32*>(workspace + exponents),
          rows,
          args.k,
          args.batch,
          ld,
          stride,
          shape.pitch(),
          shape.bytes()};
}

/// blockIdx.y 0 is A. As many threads as a unit of the device holds.
extern "C" __global__ void __launch_bounds__(kSplitThreads, 8)
    kiln_split(const __grid_constant__ KilnGpuArgs args) {
  const bool is_a = blockIdx.y == 0;
  const Splitting s = is_a ? splitting_of(args.a, packed_a_at(), exponents_a_at(args), args.m,
                                          args.lda, args.stride_a, args)
                           : splitting_of(args.b, packed_b_at(args), exponents_b_at(args), args.n,
                                          args.ldb, args.stride_b, args);
  wait_for_previous_grid();
  let_next_grid_start();
  if (is_a ? kAlongKA : kAlongKB)
    split_along(s);
  else
    split_across(s);
}

/// Where the exponents of D's rows and columns are, in the batch that `out` is of.
KILN_DEVICE void find_exponents(Output& out, const KilnGpuArgs& args, i64 batch) {
  const auto* workspace = static_cast<const unsigned char*>(args.workspace);
  out.exponents_a = reinterpret_cast<const i32*>(workspace + exponents_a_at(args)) + batch * args.m;
  out.exponents_b = reinterpret_cast<const i32*>(workspace + exponents_b_at(args)) + batch * args.n;
}

/// A sum of products of scaled elements as that of the elements; those outside D read nothing. In
/// two steps, of which only the second may round or overflow.
KILN_DEVICE Real scaled(const Output& out, Real x, i64 row, i64 column) {
  if (row >= out.rows || column >= out.columns) return x;
  const i32 e = -(out.exponents_a[row] + out.exponents_b[column]), half = e / 2;
  return product(product(x, power_of_two(half)), power_of_two(e - half));
}

// ---- cuda/wgmma/tile.h ----
// Sizes of a tile and of what shared memory holds for it. "Left" is the operand whose rows are the
// instruction's 64 rows, "right" the one whose rows are its columns; kSwap says that left is B, so
// that D's tile is computed transposed. Expects types.h.

constexpr int kCluster = kClusterLeft * kClusterRight;
constexpr int kLeftBytes = kLeftTile * 128;  // of one stage
constexpr int kRightBytes = (kRightAcrossK ? (kRightTile + 63) / 64 * 64 : kRightTile) * 128;
constexpr int kStageBytes = 2 * (kLeftBytes + kRightBytes);  // both parts of either
constexpr int kSubtiles = kWarpgroupRows / 64;  // of one warpgroup
constexpr int kThreads = (kWarpgroups + 1) * 128;
constexpr int kBufferBytes = 16 * kChunk * int(sizeof(TypeD));  // of a warp's part of D
constexpr int kStoreBytes = kWarpgroups * 4 * kStoreBuffers * kBufferBytes;
static_assert(kRightTile / kClusterLeft % 8 == 0, "a block copies whole swizzle atoms");

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
      _Pragma("unroll") for (int part = 0; part < 2; ++part) {
        const int batch = work.batch * 2 + part;
        copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to + part * kLeftBytes, left, barrier,
                                                          work.left * kLeftTile, k, batch,
                                                          rank_right, same_left, kLeftHint);
        copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(
            to + 2 * kLeftBytes + part * kRightBytes, right, barrier, work.right * kRightTile, k,
            batch, rank_left, same_right, kRightHint);
      }
      turn.step();
    }
  }
}

// ---- cuda/wgmma/wgmma.cu ----
// Hopper: one warpgroup copies (copy.h), the others multiply (wgmma) and finish. Blocks are
// persistent. Expects wgmma.h, copy.h, consumer.h, convert.h, epilogue.h, where there are scales of
// blocks scales.h, and edges.h where groups of k begin within stages.

/// Some of a stage's four steps, of operands that are k-major; `accumulate` 0 lets step 0 start
/// anew.
template <int First, int End>
KILN_DEVICE void multiply_steps(Acc (&sums)[kSubtiles][kSums], u64 left, u64 right,
                                int accumulate) {
  _Pragma("unroll") for (int step = First; step < End; ++step)
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      wgmma_m64(sums[s], left + ((s * 64 * 128 + step * 32) >> 4), right + ((step * 32) >> 4),
                accumulate | step);
}

/// The products of high parts are promoted stage by stage while the tensor cores multiply high by
/// low parts, whose sums are 2^-11 of the others and stay in its accumulators for all of k.
KILN_DEVICE void multiply_halves(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                                 int count, u64 left0, u64 right0, int lane) {
  Acc part[kSubtiles][kSums], cross[kSubtiles][kSums];
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] = cross[s][r] = 0;
  u32 behind = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    const u64 left = left0 + u64(turn.stage) * (kStageBytes >> 4);
    const u64 right = right0 + u64(turn.stage) * (kStageBytes >> 4);
    pin_all(part);
    wgmma_fence();
    multiply_steps<0, 4>(part, left, right, 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (i > 0) release(behind, lane);
    multiply_steps<0, 4>(cross, left + (kLeftBytes >> 4), right, i);
    multiply_steps<0, 4>(cross, left, right + (kRightBytes >> 4), 1);
    wgmma_commit();
    wgmma_wait<1>();
    pin_all(part);
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += part[s][r];
    behind = shared.empty + turn.stage * 8;
    turn.step();
  }
  wgmma_wait<0>();
  pin_all(cross);
  release(behind, lane);
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += cross[s][r] * kLowUnit;
}

/// The products of `count` stages.
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                          int count, u32 row_offset, int group,
                          int lane
) {
  constexpr u64 kLeftLayout = kLeftAcrossK ? across_k(64 * 128) : kAlongK;
  constexpr u64 kRightLayout = kRightAcrossK ? across_k(64 * 128) : kAlongK;
  const u64 left0 = descriptor(kLeftLayout, shared.ring + row_offset * 128);
  const u64 right0 = descriptor(kRightLayout, shared.ring + 2 * kLeftBytes);
  multiply_halves(sums, shared, turn, count, left0, right0, lane);
}
