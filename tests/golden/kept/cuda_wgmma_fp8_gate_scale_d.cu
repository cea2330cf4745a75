// device:  sm_90a
// problem: fp8 N T 64 14336 4096 out=fp8_e4m3 align=16 scale=1x128:128x128 gate=silu scale_d=1x128
// config:  cuda_wgmma left=256 right=64 stages=4 warpgroups=2 pingpong=0 swap=1 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=1

// ---- parameters ----
using TypeA = Float8E4;                         // elements of A
using TypeB = Float8E4;                         // elements of B
using TypeD = Float8E4;                         // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr float kLargestD = 448.0f;             // the largest number of D's type
constexpr int kLeftTile = 256;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 64;                  // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 128;             // left rows of each
constexpr int kSums = 32;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kLeftLines = 128;                 // rows of the left operand that share a scale
constexpr int kRightLines = 1;                  // and of the right one
constexpr int kLeftShare = 64;                  // rows of its tile for which a stage has one scale
constexpr int kRightShare = 1;                  // and of the right one's
constexpr int kChunk = 64;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kCopyRegisters = 56;              // of the warps that copy
constexpr int kMultiplyRegisters = 224;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = false;                  // A is copied into the workspace first
constexpr bool kPackB = false;                  // B is copied into the workspace first
constexpr bool kAlongKA = true;                 // A's neighbours run along k
constexpr bool kAlongKB = true;                 // B's neighbours run along k
constexpr bool kSwap = true;                    // left is B: D's tile is computed transposed
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

// ---- cuda/wgmma/quantise.h ----
// D as codes, with the scales that follow from it: columns that share one are of one block's tile.
// Expects epilogue.h, store.h and, where the scales follow from D, quantise_ptx.h.

namespace of_d {
constexpr int kShareOfD = 128;  // columns that share a scale
static_assert((kSwap ? kLeftTile : kRightTile) % kShareOfD == 0,
              "a tile has whole blocks of columns");

/// NaN does not count.
KILN_DEVICE float larger(float largest, float value) { return max(largest, fabsf(value)); }

/// Of `Count` lanes, `Apart` from each other, each brings as many numbers: the largest of all i-th
/// ones goes to the i-th lane.
template <int Count, int Apart>
KILN_DEVICE float largest_of_lanes(const float (&x)[Count], int lane) {
  if constexpr (Count == 1) {
    return x[0];
  } else {
    constexpr int kHalf = Count / 2;
    const bool upper = (lane & kHalf * Apart) != 0;
    float y[kHalf];
    _Pragma("unroll") for (int i = 0; i < kHalf; ++i) {
      const float keep = upper ? x[i + kHalf] : x[i], give = upper ? x[i] : x[i + kHalf];
      y[i] = max(keep, __shfl_xor_sync(0xffffffff, give, kHalf * Apart));
    }
    return largest_of_lanes<kHalf, Apart>(y, lane);
  }
}

KILN_DEVICE void write_scale(const Output& out, i64 row, i64 column, float scale) {
  if (row < out.rows && column < out.columns)
    out.scale_d[row * out.scales_of_row + column / kShareOfD] = scale;
}

/// Rows of the left operand are D's columns: those of a block belong to lanes, warps and, where a
/// warpgroup has but 64 of them, to warpgroups. `largest_of`: a float for each warp and each row of
/// the tile of D, and behind them one for each warpgroup and row.
KILN_DEVICE void divide_by_scales(Acc (&sums)[kSubtiles][kSums], const Output& out, i64 left,
                                  i64 right, u32 largest_of, int group, int thread) {
  constexpr int kMine = kSubtiles * 64;  // columns of a warpgroup
  constexpr int kBlocks = kMine < kShareOfD ? 1 : kMine / kShareOfD;
  constexpr int kOfBlock = kSubtiles / kBlocks;                        // subtiles
  constexpr int kSharers = kMine < kShareOfD ? kShareOfD / kMine : 1;  // warpgroups
  constexpr int kRows = kSums / 2;                                     // of a lane
  const int lane = thread & 31, first = group / kSharers * kSharers;
  const u32 mine = largest_of + u32(group * 4 + thread / 32) * (kRightTile * 4);
  const u32 others = largest_of + u32(first * 4) * (kRightTile * 4);
  const u32 inverses = largest_of + u32(kWarpgroups * 4 + first) * (kRightTile * 4);
  const i64 first_left = left - thread / 32 * 16 - lane / 4 - (group - first) * kMine;
  const i64 first_right = right - lane % 4 * 2;
  const auto row_at = [&](int r, int of_lane) { return r / 2 * 8 + r % 2 + of_lane % 4 * 2; };
  _Pragma("unroll") for (int b = 0; b < kBlocks; ++b) {
    // Eight lanes have a row's columns: each finds the largest of one row of eight.
    _Pragma("unroll") for (int eight = 0; eight < kRows; eight += 8) {
      float largest[8];
      _Pragma("unroll") for (int r = 0; r < 8; ++r) {
        largest[r] = 0;
        if (eight + r >= kRows) continue;
        const int i = (eight + r) / 2 * 4 + r % 2;
        _Pragma("unroll") for (int s = b * kOfBlock; s < (b + 1) * kOfBlock; ++s)
          _Pragma("unroll") for (int half = 0; half < 2; ++half)
            if (left + s * 64 + half * 8 < out.columns)
              largest[r] = larger(largest[r], real_of(sums[s][i + half * 2]));
      }
      const float all = largest_of_lanes<8, 4>(largest, lane);
      if (eight + lane / 4 < kRows)
        store_largest(mine + u32(row_at(eight + lane / 4, lane)) * 4, all);
    }
    named_barrier_sync(kGroupBarrier + first, kSharers * 128);
    // A thread finds the scale of a row for all of them.
    for (int row = (group - first) * 128 + thread; row < kRightTile; row += kSharers * 128) {
      float largest = 0;
      _Pragma("unroll") for (int warp = 0; warp < kSharers * 4; ++warp)
        largest = larger(largest, load_largest(others + u32(warp * kRightTile + row) * 4));
      const float scale = scale_for(largest), inverse = 1.0f / scale;
      write_scale(out, first_right + row, first_left + b * kShareOfD, scale);
      store_largest(inverses + u32(row) * 4, inverse);
    }
    // Whoever writes the next block's largest ones has read this one's, and whoever writes its
    // reciprocals waits at the barrier above for those who read these.
    named_barrier_sync(kGroupBarrier + first, kSharers * 128);
    _Pragma("unroll") for (int r = 0; r < kRows; ++r) {
      const int i = r / 2 * 4 + r % 2;
      const float inverse = load_largest(inverses + u32(row_at(r, lane)) * 4);
      _Pragma("unroll") for (int s = b * kOfBlock; s < (b + 1) * kOfBlock; ++s)
        _Pragma("unroll") for (int half = 0; half < 2; ++half)
          sums[s][i + half * 2] = kept(product(real_of(sums[s][i + half * 2]), inverse));
    }
  }
}

/// Two codes, the first in the low byte.
template <typename Code>
KILN_DEVICE u32 pack_codes(Real low, Real high, Code) {
  return pack_two(low, high, Code{});
}
/// The low byte of x + 1.5 * 2^23 is x to the nearest integer: an instruction that converts takes
/// eight times as long. What follows from the scale is in the code's range; NaN becomes 0.
KILN_DEVICE u32 code_of(float x) { return u32(__float_as_int((x == x ? x : 0.0f) + 0x1.8p23f)); }
KILN_DEVICE u32 pack_codes(Real low, Real high, i8) {
  return __byte_perm(code_of(low), code_of(high), 0x0040);
}
/// Codes of a warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into a buffer.
KILN_DEVICE void fill_codes(const Acc (&sums)[kSums], int j, u32 buffer, int lane) {
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; ++g)
    _Pragma("unroll") for (int half = 0; half < 2; ++half) {
      const int i = (j + g) * 4 + half * 2, left = lane / 4 + half * 8,
                right = g * 8 + lane % 4 * 2;
      const u32 two = pack_codes(real_of(sums[i]), real_of(sums[i + 1]), TypeD{});
      store_shared_code(buffer + swizzled(right, 0) + left, two);
      store_shared_code(buffer + swizzled(right + 1, 0) + left, two >> 8);
    }
}

/// A warp's 16 left rows by kRightTile right rows; (left, right) is D's element at their beginning.
KILN_DEVICE void copy_codes(const Acc (&sums)[kSums], const Work& work, const KilnGpuArgs& args,
                            const Output& out, const KilnTensorMap* map_d, u32 buffers, i64 left,
                            i64 right, int s, int lane) {
  constexpr int kChunks = kRightTile / kChunk;
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
    fill_codes(sums, chunk * (kChunk / 8), here, lane);
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
  divide_by_scales(sums, out, my_left, my_right, buffers + kLargestAt, group, thread);
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    copy_codes(sums[s], work, args, out, map_d,
               buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes, left + s * 64, right,
               s, lane);
}
}  // namespace of_d

/// One warpgroup's part of a tile, whose rows of the left operand start at `row_offset`; `tile`
/// says how many it has stored.
KILN_DEVICE void store_quantised(Acc (&sums)[kSubtiles][kSums], const Work& work,
                                 const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                                 u32 row_offset, int group, int thread, u32 tile) {
  const Output out = output_of(args, work.batch);
  const u32 first = kSwap ? row_offset / 2 : row_offset;
  Acc d[of_d::kSubtiles][of_d::kSums];
  pass_gate(d, sums, out,
            i64(work.left) * of_d::kLeftTile + first + thread / 32 * 16 + (thread & 31) / 4,
            i64(work.right) * of_d::kRightTile + (thread & 3) * 2);
  of_d::store_codes(d, work, args, out, map_d, buffers, first, group, thread, tile);
}
