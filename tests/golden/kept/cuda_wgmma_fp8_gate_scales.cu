// device:  sm_90a
// problem: fp8 N T 64 14336 4096 align=16 scale=1x128:128x128 gate=silu
// config:  cuda_wgmma left=64 right=128 stages=8 warpgroups=2 pingpong=1 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=1

// ---- parameters ----
using TypeA = Float8E4;                         // elements of A
using TypeB = Float8E4;                         // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 64;                   // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 8;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 4;                     // warps that read one stage
constexpr int kRegions = 1;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kLeftLines = 1;                   // rows of the left operand that share a scale
constexpr int kRightLines = 128;                // and of the right one
constexpr int kLeftShare = 1;                   // rows of its tile for which a stage has one scale
constexpr int kRightShare = 64;                 // and of the right one's
constexpr int kChunk = 32;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kHeld = 16;                       // sums of a thread that are finished together
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
#define KILN_TURN_BRANCHES "turns: .branchtargets t0, t1, t2, t3;\n" \
  "brx.idx %80, turns;\n" \
  "t0: mov.b32 %0, %16; mov.b32 %1, %17; mov.b32 %2, %18; mov.b32 %3, %19; mov.b32 %4, %20; mov.b32 %5, %21; mov.b32 %6, %22; mov.b32 %7, %23; mov.b32 %8, %24; mov.b32 %9, %25; mov.b32 %10, %26; mov.b32 %11, %27; mov.b32 %12, %28; mov.b32 %13, %29; mov.b32 %14, %30; mov.b32 %15, %31;\nbra done;\n" \
  "t1: mov.b32 %0, %32; mov.b32 %1, %33; mov.b32 %2, %34; mov.b32 %3, %35; mov.b32 %4, %36; mov.b32 %5, %37; mov.b32 %6, %38; mov.b32 %7, %39; mov.b32 %8, %40; mov.b32 %9, %41; mov.b32 %10, %42; mov.b32 %11, %43; mov.b32 %12, %44; mov.b32 %13, %45; mov.b32 %14, %46; mov.b32 %15, %47;\nbra done;\n" \
  "t2: mov.b32 %0, %48; mov.b32 %1, %49; mov.b32 %2, %50; mov.b32 %3, %51; mov.b32 %4, %52; mov.b32 %5, %53; mov.b32 %6, %54; mov.b32 %7, %55; mov.b32 %8, %56; mov.b32 %9, %57; mov.b32 %10, %58; mov.b32 %11, %59; mov.b32 %12, %60; mov.b32 %13, %61; mov.b32 %14, %62; mov.b32 %15, %63;\nbra done;\n" \
  "t3: mov.b32 %0, %64; mov.b32 %1, %65; mov.b32 %2, %66; mov.b32 %3, %67; mov.b32 %4, %68; mov.b32 %5, %69; mov.b32 %6, %70; mov.b32 %7, %71; mov.b32 %8, %72; mov.b32 %9, %73; mov.b32 %10, %74; mov.b32 %11, %75; mov.b32 %12, %76; mov.b32 %13, %77; mov.b32 %14, %78; mov.b32 %15, %79;\n"
#define KILN_TURN_TAKEN(d) "=&f"((d)[0]), "=&f"((d)[1]), "=&f"((d)[2]), "=&f"((d)[3]), "=&f"((d)[4]), "=&f"((d)[5]), "=&f"((d)[6]), "=&f"((d)[7]), "=&f"((d)[8]), "=&f"((d)[9]), "=&f"((d)[10]), "=&f"((d)[11]), "=&f"((d)[12]), "=&f"((d)[13]), "=&f"((d)[14]), "=&f"((d)[15])
#define KILN_TURN_SUMS(d) "f"((d)[0][0]), "f"((d)[0][1]), "f"((d)[0][2]), "f"((d)[0][3]), "f"((d)[0][4]), "f"((d)[0][5]), \
  "f"((d)[0][6]), "f"((d)[0][7]), "f"((d)[0][8]), "f"((d)[0][9]), "f"((d)[0][10]), "f"((d)[0][11]), \
  "f"((d)[0][12]), "f"((d)[0][13]), "f"((d)[0][14]), "f"((d)[0][15]), "f"((d)[0][16]), "f"((d)[0][17]), \
  "f"((d)[0][18]), "f"((d)[0][19]), "f"((d)[0][20]), "f"((d)[0][21]), "f"((d)[0][22]), "f"((d)[0][23]), \
  "f"((d)[0][24]), "f"((d)[0][25]), "f"((d)[0][26]), "f"((d)[0][27]), "f"((d)[0][28]), "f"((d)[0][29]), \
  "f"((d)[0][30]), "f"((d)[0][31]), "f"((d)[0][32]), "f"((d)[0][33]), "f"((d)[0][34]), "f"((d)[0][35]), \
  "f"((d)[0][36]), "f"((d)[0][37]), "f"((d)[0][38]), "f"((d)[0][39]), "f"((d)[0][40]), "f"((d)[0][41]), \
  "f"((d)[0][42]), "f"((d)[0][43]), "f"((d)[0][44]), "f"((d)[0][45]), "f"((d)[0][46]), "f"((d)[0][47]), \
  "f"((d)[0][48]), "f"((d)[0][49]), "f"((d)[0][50]), "f"((d)[0][51]), "f"((d)[0][52]), "f"((d)[0][53]), \
  "f"((d)[0][54]), "f"((d)[0][55]), "f"((d)[0][56]), "f"((d)[0][57]), "f"((d)[0][58]), "f"((d)[0][59]), \
  "f"((d)[0][60]), "f"((d)[0][61]), "f"((d)[0][62]), "f"((d)[0][63])
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/wgmma/scales.h ----
// Scales of blocks of k. A stage's lie beside its operands in shared memory; warps of the producer
// that copy no operand bring them.
// Expects abi.h, grid_ptx.h, tile_scheduler.h, ring.h, scales_ptx.h.

/// Where one line's scales begin, of which there is one for each stage of all of k; `Lines` lines
/// share them. Null for a line that does not exist.
template <int Lines>
KILN_DEVICE const float* scales_of_line(const void* scales, i64 lines, i64 line, i64 batch, i64 k) {
  if (line < 0 || line >= lines) return nullptr;
  const i64 row = batch * ((lines + Lines - 1) / Lines) + line / Lines;
  return static_cast<const float*>(scales) + row * ((k + kDepth - 1) / kDepth);
}

/// The line of B that is number `at` of this block's tile; -1 where there is none.
KILN_DEVICE i64 line_of_b(const KilnGpuArgs& args, const Work& work, int at) {
  constexpr int kTile = kSwap ? kLeftTile : kRightTile;
  const int unit = at / kUnit, factor = unit % 2;
  const i64 j = i64(kSwap ? work.left : work.right) * (kTile / 2) + unit / 2 * kUnit + at % kUnit;
  return j < args.n ? factor * args.n + j : -1;
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
    return scales_of_line < kSwap ? kRightLines
                                  : kLeftLines > (args.scale_a, args.m, line, batch, args.k);
  }
  const i64 line = line_of_b(args, work, at), lines = 2 * args.n;
  return scales_of_line < kSwap ? kLeftLines
                                : kRightLines > (args.scale_b, lines, line, work.batch, args.k);
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

/// The scales of a chunk, of which `count` exist: by one read where they are aligned. Each line
/// that a warp reads is an access of its own of L1, which is shared memory too.
KILN_DEVICE void read_scales(float (&to)[kScaleChunk], const float* from, int count) {
  if (count >= kScaleChunk && from != nullptr && (reinterpret_cast<u64>(from) & 15) == 0) {
    read_four_scales(to, from);
    return;
  }
  _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j)
    to[j] = from != nullptr && j < count ? from[j] : 0.0f;
}

/// What each of kScaleWarps warps does. A chunk is read while the one before it is handed out.
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
    const float* from[kEach];
    float now[kEach][kScaleChunk], next[kEach][kScaleChunk];
    _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
      from[e] = scales_at(args, work, first_index + e * kLanes);
      if (from[e]) from[e] += work.begin;
      read_scales(next[e], from[e], work.count);
    }
    _Pragma("unroll 1") for (int first = 0; first < work.count; first += kScaleChunk) {
      _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
        _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j) now[e][j] = next[e][j];
        if (from[e] != nullptr) from[e] += kScaleChunk;
        read_scales(next[e], from[e], work.count - first - kScaleChunk);
      }
      _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j) {
        if (first + j >= work.count) break;
        mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
        const u32 to = shared.scales + turn.stage * kScaleBytes;
        _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
          const int index = first_index + e * kLanes;
          if (index < kRightScales + kLeftScales)
            store_scale(to + place_of_scale(index) * 4, now[e][j]);
        }
        __syncwarp();
        if (lane == 0) mbarrier_arrive(shared.full + turn.stage * 8);
        turn.step();
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
