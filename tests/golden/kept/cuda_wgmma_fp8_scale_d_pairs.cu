// device:  sm_90a
// problem: fp8 N T 2048 14336 4096 out=fp8_e4m3 align=16 scale=1x128:128x128 gate=silu scale_d=1x128
// config:  cuda_wgmma left=256 right=128 stages=3 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=2 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=1

// ---- parameters ----
using TypeA = Float8E4;                         // elements of A
using TypeB = Float8E4;                         // elements of B
using TypeD = Float8E4;                         // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr float kLargestD = 448.0f;             // the largest number of D's type
constexpr int kLeftTile = 256;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 3;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 128;             // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 2;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kLeftLines = 1;                   // rows of the left operand that share a scale
constexpr int kRightLines = 128;                // and of the right one
constexpr int kLeftShare = 1;                   // rows of its tile for which a stage has one scale
constexpr int kRightShare = 64;                 // and of the right one's
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
constexpr int kMeetingAt = kWarpgroups * 4 * kStoreBuffers * kBufferBytes;
// Behind the buffers, of each warp two places for the largest magnitudes of its rows in the other
// block's tile, and their barriers.
constexpr int kMeetingBytes = kSubtiles * 16 * 4;  // of a place
constexpr int kMeetings = kWarpgroups * 4 * 2;
constexpr int kMeetingBarriersAt = kMeetingAt + kMeetings * kMeetingBytes;
constexpr int kStoreBytes = (kMeetingBarriersAt + kMeetings * 8 + 127) / 128 * 128;
static_assert(kRightTile / kClusterLeft % 8 == 0, "a block copies whole swizzle atoms");
// A stage has one scale for every kRightShare rows of the right tile and, behind them, one for
// every kLeftShare of the left one. Where each right row has its own, those of one lane (of lanes
// that are equal modulo 4) lie together, in kLaneScales words: a pitch at which four lanes read
// from different banks.
constexpr int kLeftScales = kLeftTile / kLeftShare, kRightScales = kRightTile / kRightShare;
constexpr int kLaneScales = ((kRightTile + 15) / 16 + ((kRightTile + 15) / 16 % 4 == 0)) * 4;
constexpr int kRightPlaces = kRightShare == 1 ? 4 * kLaneScales : (kRightScales + 3) / 4 * 4;
constexpr int kScaleBytes = (kRightPlaces + kLeftScales + 3) / 4 * 16;
constexpr int kScaleWarps = kLeftScales + kRightScales > 64   ? 3
                            : kLeftScales + kRightScales > 32 ? 2
                                                              : 1;  // that bring them

// ---- cuda/wgmma/quantise_ptx.h ----
// Codes of D, and the largest magnitudes of rows, in shared memory, by address.

/// The two low bytes.
KILN_DEVICE void store_shared_codes(u32 to, u32 codes) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(u16(codes)) : "memory");
}
KILN_DEVICE float load_largest(u32 from) {
  float largest;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(largest) : "r"(from) : "memory");
  return largest;
}
/// To the same place in block `rank` of the cluster; its bytes count at that block's barrier.
KILN_DEVICE void send_largest(u32 to, float largest, u32 barrier, u32 rank) {
  asm volatile(
      "{\n"
      ".reg .b32 place, counter;\n"
      "mapa.shared::cluster.u32 place, %0, %3;\n"
      "mapa.shared::cluster.u32 counter, %2, %3;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [place], %1, [counter];\n"
      "}" ::"r"(to),
      "f"(largest), "r"(barrier), "r"(rank)
      : "memory");
}

// ---- cuda/wgmma/quantise.h ----
// D as codes, with the scales that follow from it: columns that share one are of one block's tile.
// Expects epilogue.h, store.h and, where the scales follow from D, quantise_ptx.h.

namespace of_d {
constexpr int kShareOfD = 128;  // columns that share a scale
static_assert(!kSwap && kRightTile % 128 == 64 && kClusterRight == 2 && kClusterLeft == 1,
              "two tiles of a cluster have whole blocks of columns");

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

constexpr int kRowsOfLane = kSubtiles * 2;
constexpr int kPiece = 32;  // sums of two rows: half of a block
constexpr int kPieces = kSums / kPiece, kBlocks = (kPieces + 1) / 2;

/// The block that a piece of the tile belongs to. Both tiles of a cluster have block 0, the first
/// one behind its own blocks, the second one before them.
KILN_DEVICE constexpr int block_of(int piece, bool second) {
  return second ? (piece + 1) / 2 : piece + 1 == kPieces ? 0 : piece / 2 + 1;
}
/// Where a block begins in the tile.
KILN_DEVICE constexpr int begin_of(int block, bool second) {
  return second ? block * 128 - 64 : block > 0 ? block * 128 - 128 : kRightTile - 64;
}
constexpr int kScales = kBlocks * kRowsOfLane;  // of a lane's rows
constexpr int kFours = (kScales + 3) / 4;

/// Each warp exchanges the largest magnitudes of block 0 with the warp of the other tile that has
/// the same rows. Two places in turn: before a warp sends to a place again, it has received what
/// the other sent after reading that place. `largest`: of four rows in four lanes each, block 0
/// first.
KILN_DEVICE void meet_other_tile(float (&largest)[kFours], const Work& work, u32 buffers, u32 tile,
                                 int warp, int lane) {
  const u32 place = u32(warp) * 2 + tile % 2, other = 1 - u32(work.right) % 2;
  const u32 here = buffers + kMeetingAt + place * kMeetingBytes;
  const u32 barrier = buffers + kMeetingBarriersAt + place * 8;
  if (lane == 0) mbarrier_expect(barrier, kMeetingBytes);
  _Pragma("unroll") for (int four = 0; four * 4 < kRowsOfLane; ++four) {
    const int row = four * 4 + lane % 4;
    if (row < kRowsOfLane)
      send_largest(here + u32(lane / 4 * kRowsOfLane + row) * 4, largest[four], barrier, other);
  }
  mbarrier_wait(barrier, tile / 2 % 2);
  _Pragma("unroll") for (int four = 0; four * 4 < kRowsOfLane; ++four) {
    const int row = four * 4 + lane % 4;
    if (row < kRowsOfLane)
      largest[four] =
          max(largest[four], load_largest(here + u32(lane / 4 * kRowsOfLane + row) * 4));
  }
}

/// Four lanes have a row's columns: each finds the scale of one of its rows for all four.
KILN_DEVICE void divide_by_scales(Acc (&sums)[kSubtiles][kSums],
                                  const Work& work,
                                  const Output& out, i64 left, i64 right,
                                  u32 buffers, u32 tile, int group,
                                  int thread) {
  const bool second = work.right % 2 != 0;
  const int lane = thread & 31;
  const i64 first_right = right - lane % 4 * 2;
  float largest[kFours], inverse[kFours * 4];
  _Pragma("unroll") for (int four = 0; four < kFours; ++four) {
    float of_row[4];
    _Pragma("unroll") for (int j = 0; j < 4; ++j) {
      const int item = four * 4 + j, b = item / kRowsOfLane, s = item % kRowsOfLane / 2;
      of_row[j] = 0;
      if (item >= kScales) continue;
      _Pragma("unroll") for (int piece = 0; piece < kPieces; ++piece) {
        if (block_of(piece, false) != b && block_of(piece, true) != b) continue;
        float of_piece = 0;
        _Pragma("unroll") for (int i = piece * kPiece; i < (piece + 1) * kPiece; i += 4)
          _Pragma("unroll") for (int e = 0; e < 2; ++e)
              of_piece = larger(of_piece, real_of(sums[s][i + j % 2 * 2 + e]));
        if (block_of(piece, second) == b) of_row[j] = max(of_row[j], of_piece);
      }
    }
    largest[four] = largest_of_lanes<4, 1>(of_row, lane);
  }
  meet_other_tile(largest, work, buffers, tile, group * 4 + thread / 32, lane);
  _Pragma("unroll") for (int four = 0; four < kFours; ++four) {
    const int item = four * 4 + lane % 4, b = item / kRowsOfLane, row = item % kRowsOfLane;
    const float scale = scale_for(largest[four]), mine = 1.0f / scale;
    // The first tile has the first columns of the block that both have.
    if (item < kScales && !(second && b == 0))
      write_scale(out, left + row / 2 * 64 + row % 2 * 8, first_right + begin_of(b, second), scale);
    _Pragma("unroll") for (int j = 0; j < 4; ++j)
      inverse[four * 4 + j] = __shfl_sync(0xffffffff, mine, lane / 4 * 4 + j);
  }
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int half = 0; half < 2; ++half)
      _Pragma("unroll") for (int piece = 0; piece < kPieces; ++piece) {
        const int row = s * 2 + half;
        const float x = second ? inverse[block_of(piece, true) * kRowsOfLane + row]
                               : inverse[block_of(piece, false) * kRowsOfLane + row];
        _Pragma("unroll") for (int i = piece * kPiece; i < (piece + 1) * kPiece; i += 4)
          _Pragma("unroll") for (int e = half * 2; e < half * 2 + 2; ++e)
            sums[s][i + e] = kept(product(real_of(sums[s][i + e]), x));
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
  divide_by_scales(sums, work, out, my_left, my_right, buffers, tile, group, thread);
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

// ---- cuda/wgmma/kernel.cu ----
// The kernel itself: who copies, who multiplies. Expects copy_all() and multiply(), store.h and,
// where k is divided, combine.h.

KILN_DEVICE void run_consumer(const Shared& shared, TileScheduler scheduler,
                              const KilnGpuArgs& args, const KilnTensorMap* map_d, int group) {
  const int thread = int(threadIdx.x) & 127, lane = thread & 31;
  Acc sums[kSubtiles][kSums];
  Turn turn;
  Work work;
  u32 tile = 0;
  const u32 kRowOffset = group * kWarpgroupRows;
  const int region = group;
  // The others start some stages behind the first: while it finishes a tile, they still multiply.
    if (group > 0)
      mbarrier_wait(shared.full + (min(scheduler.stages, kStages - 1) - 1) * 8, 0);
  while (scheduler.take(work)) {
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane);
    store_quantised(sums, work, args, map_d, shared.buffers, kRowOffset, group, thread, tile++);
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
  const u32 rank = cluster_rank();
  if (threadIdx.x == kWarpgroups * 128) {
    tensor_map_prefetch(&map_left);
    tensor_map_prefetch(&map_right);
    tensor_map_prefetch(&map_d);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(shared.full + i * 8, 1 + kScaleWarps);
      mbarrier_init(shared.empty + i * 8, kReaders * kCluster);
    }
    for (int i = 0; i < kMeetings; ++i)
      mbarrier_init(shared.buffers + kMeetingBarriersAt + i * 8, 1);
    mbarrier_init_fence();
  }
  cluster_sync();
  const TileScheduler scheduler = scheduler_of(args, rank);
  if (group == kWarpgroups) {
    give_registers<kCopyRegisters>();
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, &map_left, &map_right);
    const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0) - kWarpgroups * 4 - 1;
    if (warp >= 0 && warp < kScaleWarps)
      copy_scales(shared, scheduler, args, warp, int(threadIdx.x) & 31);
  } else {
    take_registers<kMultiplyRegisters>();
    wait_for_previous_grid();
    let_next_grid_start();
    run_consumer(shared, scheduler, args, &map_d, group);
  }
  // A block that ended would take away the barriers at which the others still arrive.
  cluster_sync();
}
