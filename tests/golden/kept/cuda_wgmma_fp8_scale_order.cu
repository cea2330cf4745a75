// device:  sm_90a
// problem: fp8 N T 64 7168 2048 align=16 scale=1x128:128x128 scale_order=blocks_4:lines
// config:  cuda_wgmma left=64 right=64 stages=12 warpgroups=1 pingpong=0 swap=1 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=1 promote=1

// ---- parameters ----
using TypeA = Float8E4;                         // elements of A
using TypeB = Float8E4;                         // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 64;                   // rows of the left operand in a block's tile
constexpr int kRightTile = 64;                  // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 12;                     // places in the ring
constexpr int kWarpgroups = 1;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 32;                       // of a thread, for 64 left rows
constexpr int kReaders = 4;                     // warps that read one stage
constexpr int kRegions = 1;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kLeftLines = 128;                 // rows of the left operand that share a scale
constexpr int kRightLines = 1;                  // and of the right one
constexpr int kLeftShare = 64;                  // rows of its tile for which a stage has one scale
constexpr int kRightShare = 1;                  // and of the right one's
constexpr int kUnitA = 4;                       // A's scales of a stage lie side by side in rows of whole units, 0: those of a line
constexpr int kUnitB = 0;                       // and B's
constexpr int kChunk = 64;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kCopyRegisters = 56;              // of the warps that copy
constexpr int kMultiplyRegisters = 240;         // of the warps that multiply
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
constexpr u64 kLeftHint = 0x12F0000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x14F0000000000000;  // L2 policy: evict last, or normal
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

// ---- cuda/wgmma/scales.h ----
// Scales of blocks of k. A stage's lie beside its operands in shared memory; warps of the producer
// that copy no operand bring them.
// Expects abi.h, grid_ptx.h, tile_scheduler.h, ring.h, scales_ptx.h.

/// Scales from one of a line, of so many, to the line's next: 1 with a `Unit` of 0; else those of a
/// stage lie side by side, in rows of whole units.
template <int Unit>
KILN_DEVICE int scale_step(i64 lines) {
  if constexpr (Unit == 0)
    return 1;
  else
    return int(ceil_div(lines, Unit) * Unit);
}

/// Where one line's scales begin, of which there is one for each stage of all of k; `Lines` lines
/// share them. Null for a line that does not exist.
template <int Lines, int Unit>
KILN_DEVICE const float* scales_of_line(const void* scales, i64 lines, i64 line, i64 batch, i64 k) {
  if (line < 0 || line >= lines) return nullptr;
  const int stages = int((k + kDepth - 1) / kDepth);
  if constexpr (Unit != 0)
    return static_cast<const float*>(scales) + batch * stages * scale_step<Unit>(lines) + line;
  const i64 row = batch * ((lines + Lines - 1) / Lines) + line / Lines;
  return static_cast<const float*>(scales) + row * stages;
}

/// The line's scales whose current one is number `index` of a stage: those of the right tile come
/// first.
KILN_DEVICE const float* scales_at(const KilnGpuArgs& args, const Work& work, int index) {
  if (index >= kRightScales + kLeftScales) return nullptr;
  const bool right = index < kRightScales;
  const int at = right ? index * kRightShare : (index - kRightScales) * kLeftShare;
  if (right == kSwap) {
    i64 batch = work.batch,
        line = i64(kSwap ? work.right * kRightTile : work.left * kLeftTile) + at;
    return scales_of_line < kSwap ? kRightLines : kLeftLines,
           kUnitA > (args.scale_a, args.m, line, batch, args.k);
  }
  const i64 line = i64(kSwap ? work.left * kLeftTile : work.right * kRightTile) + at,
            lines = args.n;
  const i64 batch = work.batch;
  return scales_of_line < kSwap ? kLeftLines : kRightLines,
         kUnitB > (args.scale_b, lines, line, batch, args.k);
}

/// Whether scale `index` of a stage is one of A's.
KILN_DEVICE bool is_of_a(int index) { return (index < kRightScales) == kSwap; }
KILN_DEVICE const float* first_scale(const KilnGpuArgs& args, int index) {
  return static_cast<const float*>(is_of_a(index) ? args.scale_a : args.scale_b);
}

/// From scale `index` of a stage to that of the stage behind it.
KILN_DEVICE int step_of_scale(const KilnGpuArgs& args, int index) {
  const i64 lines_of_b = args.n;
  return is_of_a(index) ? scale_step<kUnitA>(args.m) : scale_step<kUnitB>(lines_of_b);
}

/// Where scale `index` lies in a stage, so that a lane reads several at once: reads of scales
/// compete with those of the instructions that multiply.
KILN_DEVICE constexpr int place_of_scale(int index) {
  if (index < kRightScales)
    return kRightShare == 1 ? index % 8 / 2 * kLaneScales + index / 8 * 2 + index % 2 : index;
  const int row = index - kRightScales;
  // A lane's two rows lie beside each other.
  return kRightPlaces + (kLeftShare == 1 ? (row / 16 * 8 + row % 8) * 2 + row / 8 % 2 : row);
}

constexpr int kScaleChunk = 4;  // stages whose scales are read together

constexpr u32 kNoScale = ~0u;

/// Scale number `from` of the operand that scale `index` of a stage is of; `from` becomes the next
/// stage's. Numbers, of 31 bits, take half the registers that addresses do.
KILN_DEVICE float next_scale(const KilnGpuArgs& args, int index, u32& from, bool exists) {
  if (from == kNoScale || !exists) return 0.0f;
  const float scale = first_scale(args, index)[from];
  from += step_of_scale(args, index);
  return scale;
}

/// What each of kScaleWarps warps does. Lanes read neighbouring lines' scales, each of a stage
/// kScaleChunk ahead of the one that it hands out.
KILN_DEVICE void copy_scales(const Shared& shared, TileScheduler scheduler, const KilnGpuArgs& args,
                             int warp, int lane) {
  constexpr int kLanes = kScaleWarps * 32;
  constexpr int kEach = (kLeftScales + kRightScales + kLanes - 1) / kLanes;  // of a lane
  const int first_index = warp * 32 + lane;
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  wait_for_previous_grid();
  for (; more; more = scheduler.take(work)) {
    u32 from[kEach];
    float ahead[kEach][kScaleChunk];
    _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
      const int index = first_index + e * kLanes;
      const float* first = scales_at(args, work, index);
      from[e] = first == nullptr ? kNoScale
                                 : u32(first - first_scale(args, index)) +
                                       u32(work.begin) * step_of_scale(args, index);
    }
    _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j)
      _Pragma("unroll") for (int e = 0; e < kEach; ++e)
        ahead[e][j] = next_scale(args, first_index + e * kLanes, from[e], j < work.count);
    _Pragma("unroll 1") for (int first = 0; first < work.count; first += kScaleChunk) {
      _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j) {
        if (first + j >= work.count) break;
        mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
        const u32 to = shared.scales + turn.stage * kScaleBytes;
        _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
          const int index = first_index + e * kLanes;
          if (index < kRightScales + kLeftScales)
            store_scale(to + place_of_scale(index) * 4, ahead[e][j]);
        }
        __syncwarp();
        if (lane == 0) mbarrier_arrive(shared.full + turn.stage * 8);
        turn.step();
        _Pragma("unroll") for (int e = 0; e < kEach; ++e)
          ahead[e][j] = next_scale(args, first_index + e * kLanes, from[e],
                                   first + j + kScaleChunk < work.count);
      }
    }
  }
}

/// What one thread's sums of a stage are multiplied by: scales of two rows in each 64 of the left
/// operand, or of all 64, and of its columns or of columns that share one.
struct StageScales {
  static constexpr int kRows = kLeftShare < 64 ? 2 : 1;
  static constexpr int kColumns = kRightShare == 1 ? kSums / 2 : kRightScales;
  static constexpr int kReads = (kColumns + 3) / 4;
  float left[kSubtiles][2], right[kReads][4];

  static __device__ __forceinline__ StageScales of(u32 from, u32 row_offset, int thread) {
    StageScales to;
    const u32 first_right = kRightShare == 1 ? from + thread % 4 * (kLaneScales * 4) : from;
    _Pragma("unroll") for (int i = 0; i < kReads; ++i)
      load_scales(to.right[i], first_right + i * 16);
    const int in_64 = kRows == 2 ? thread / 32 * 16 + thread % 32 / 4 : 0;
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s) {
      const int row = int(row_offset) + s * 64 + in_64;
      if constexpr (kLeftShare == 1) {
        load_scales(to.left[s], from + place_of_scale(kRightScales + row) * 4);
      } else {
        _Pragma("unroll") for (int half = 0; half < kRows; ++half)
          to.left[s][half] =
              load_scale(from + place_of_scale(kRightScales + (row + half * 8) / kLeftShare) * 4);
      }
    }
    return to;
  }
  __device__ __forceinline__ float of(int s, int r) const {
    const int column = kRightShare == 1 ? r / 4 * 2 + r % 2 : r / 4 * 8 / kRightShare;
    return left[s][kRows == 2 ? r / 2 % 2 : 0] * right[column / 4][column % 4];
  }
};
