// device:  sm_90a
// problem: bf16 N T 256 256 32768 align=16
// config:  cuda_wgmma left=128 right=128 stages=7 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=summed splits=32 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 7;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kSplits = 32;                     // parts that k is divided into
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

// ---- cuda/wgmma/reduce.h ----
// The reduction of split-K as a launch of its own: it works on all units of the device, where the
// last block of a tile would reduce alone, and always in the same order, so that the same call
// gives the same bits. The workspace holds the accumulators of all parts as the threads had them.
// Expects tile.h, partials.h, combine_ptx.h, epilogue.h.

constexpr int kRegion = kSubtiles * kSums * 128;  // accumulators of one warpgroup
constexpr int kAdders = 8;                        // warps of a block, which share the parts
constexpr int kPiecesOfAdder = (kSplits + kAdders - 1) / kAdders;
/// Parts whose accumulators one thread fetches together: a wait for memory takes some 700 cycles.
constexpr int kFetched = kPiecesOfAdder < 16 ? kPiecesOfAdder : 16;

/// Accumulators of warpgroup `region` of block `rank` of the cluster that had this part.
KILN_DEVICE Acc* sums_of(const KilnGpuArgs& args, u32 slot, u32 rank, int region) {
  Acc* all = reinterpret_cast<Acc*>(static_cast<unsigned char*>(args.workspace) + sums_at(args));
  return all + ((i64(slot) * kCluster + rank) * kRegions + region) * kRegion;
}

KILN_DEVICE void keep_part(const Acc (&sums)[kSubtiles][kSums], const Work& work, u32 rank,
                           const KilnGpuArgs& args, int region, int thread) {
  Acc* mine = sums_of(args, slot_of(work, work.part), rank, region) + thread * 4;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; r += 4)
      store_four(mine + (s * kSums + r) * 128, &sums[s][r]);
}

KILN_DEVICE void finish_one(const Output& out, Acc sum,
                            i64 row, i64 column) {
  if (row >= out.rows || column >= out.columns) return;
  TypeD* d = out.d + row * out.ldd + column;
  Real x = product(Real(sum), out.alpha);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  *d = from_real(x, TypeD{});
}

/// A block adds four sums of each lane of one warp that multiplied.
extern "C" __global__ void __launch_bounds__(kAdders * 32)
    kiln_sum(const __grid_constant__ KilnGpuArgs args) {
  __shared__ Acc added[kAdders][32][4];
  constexpr int kBlocks = kRegion / 128;  // of one region
  const int lane = int(threadIdx.x) & 31, adder = int(threadIdx.x) / 32;
  const int any = int(blockIdx.x) / kBlocks, quads = int(blockIdx.x) - any * kBlocks;
  const int region = any % kRegions;
  const u32 rank = u32(any / kRegions % kCluster);
  const int tile = any / (kRegions * kCluster);
  const u32 first_slot = u32(tile) * kSplits;
  wait_for_previous_grid();
  let_next_grid_start();
  Acc sum[4] = {};
  for (int first = adder; first < kSplits; first += kAdders * kFetched) {
    Acc some[kFetched][4];
    // Past the end the last part is read again, and not added.
    _Pragma("unroll") for (int p = 0; p < kFetched; ++p)
      load_four(some[p],
                sums_of(args, first_slot + min(first + p * kAdders, kSplits - 1), rank, region) +
                    quads * 128 + lane * 4);
    _Pragma("unroll") for (int p = 0; p < kFetched; ++p)
      _Pragma("unroll") for (int i = 0; i < 4; ++i)
        sum[i] += first + p * kAdders < kSplits ? some[p][i] : Acc(0);
  }
  _Pragma("unroll") for (int i = 0; i < 4; ++i) added[adder][lane][i] = sum[i];
  __syncthreads();
  if (adder != 0) return;
  _Pragma("unroll") for (int other = 1; other < kAdders; ++other)
    _Pragma("unroll") for (int i = 0; i < 4; ++i) sum[i] += added[other][lane][i];
  const TileScheduler scheduler = scheduler_of(args, rank);
  Work work;
  scheduler.place(work, tile);
  const Output out = output_of(args, work.batch);
  // Four sums of a thread are two rows of the left operand by two of the right one.
  const int thread = quads % 4 * 32 + lane, quad = quads / 4 % (kSums / 4), s = quads / kSums;
  const i64 left =
      i64(work.left) * kLeftTile + region * kWarpgroupRows + s * 64 + thread / 32 * 16 + lane / 4;
  const i64 right = i64(work.right) * kRightTile + quad * 8 + lane % 4 * 2;
  _Pragma("unroll") for (int i = 0; i < 4; ++i) {
    const i64 l = left + (i & 2) * 4, r = right + (i & 1);
    finish_one(out, sum[i], kSwap ? r : l, kSwap ? l : r);
  }
}
