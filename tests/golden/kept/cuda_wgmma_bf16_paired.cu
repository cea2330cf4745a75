// device:  sm_90a
// problem: bf16 N T 1023 1023 1023
// config:  cuda_wgmma left=64 right=128 stages=9 warpgroups=1 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=1 pack_b=1 keep_right=0 promote=0 paired=1

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 64;                   // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 9;                      // places in the ring
constexpr int kWarpgroups = 1;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 4;                     // warps that read one stage
constexpr int kRegions = 1;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kCopyRegisters = 56;              // of the warps that copy
constexpr int kMultiplyRegisters = 240;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = true;                   // A is copied into the workspace first
constexpr bool kPackB = true;                   // B is copied into the workspace first
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

// ---- cuda/wgmma/pack.cu ----
// Copies one operand into the workspace so that the copy engine can address it: k-major, rows a
// multiple of 128 bytes apart. Expects hopper_ptx.h, grid_ptx.h,
// unaligned.h, workspace.h and the parameters.

/// Where a matrix comes from and goes to: `lines` of neighbours, as they lie in memory. All but
/// `lines` and `batches` in bytes.
struct Packing {
  const unsigned char* from;
  unsigned char* to;
  i64 length, ld, stride;
  i64 pitch, batch_bytes;  // of the packed matrix
  i64 lines, batches;
};

/// Only the distance of lines changes. A thread for every 16 bytes: all of them are on their way at
/// once.
KILN_DEVICE void pack_lines(
    const Packing& p
) {
  const u32 units = u32(p.pitch / 16), lines = u32(p.lines);
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 any = t / units, unit = t - any * units;
  const u32 batch = 0, line = any;
  const bool there = line < lines;
  if (!there || i64(unit) * 16 >= p.length) return;
  const auto* end = p.from + (p.batches - 1) * p.stride + (p.lines - 1) * p.ld + p.length;
  const auto* at = p.from + batch * p.stride + line * p.ld + unit * 16;
  const uint4 bytes =
      words_inside(at, p.from, end) ? shifted(fetch_words(at)) : fetch_bytes(at, p.from, end);
  *reinterpret_cast<uint4*>(p.to + batch * p.batch_bytes + line * p.pitch + unit * 16) = bytes;
}

/// Lines run along the rows: turned over in tiles of 64 × 64 through shared memory.
template <typename T>
KILN_DEVICE void pack_across(const Packing& p) {
  constexpr int kTile = 64;
  // One element more a row keeps the reads down a column on different banks.
  __shared__ T tile[kTile][kTile + 4 / sizeof(T)];
  const i64 rows = p.length / i64(sizeof(T)), depth = p.lines;
  const i64 row_tiles = ceil_div(rows, kTile), k_tiles = ceil_div(depth, kTile);
  const int lane = int(threadIdx.x) % kTile, line = int(threadIdx.x) / kTile;
  const int lines = int(blockDim.x) / kTile;
  for (i64 t = blockIdx.x; t < row_tiles * k_tiles * p.batches; t += gridDim.x) {
    const i64 batch = t / (row_tiles * k_tiles), at = t - batch * row_tiles * k_tiles;
    const i64 k0 = at / row_tiles * kTile, row0 = at % row_tiles * kTile;
    for (int i = line; i < kTile; i += lines)
      if (k0 + i < depth && row0 + lane < rows)
        tile[i][lane] =
            reinterpret_cast<const T*>(p.from + batch * p.stride + (k0 + i) * p.ld)[row0 + lane];
    __syncthreads();
    for (int i = line; i < kTile; i += lines)
      if (row0 + i < rows && k0 + lane < depth)
        reinterpret_cast<T*>(p.to + batch * p.batch_bytes + (row0 + i) * p.pitch)[k0 + lane] =
            tile[lane][i];
    __syncthreads();
  }
}

template <typename T, bool AlongK, typename Shape>
KILN_DEVICE Packing packing_of(const void* from, unsigned char* to, i64 rows, i64 ld, i64 stride,
                               const KilnGpuArgs& args) {
  constexpr i64 kSize = sizeof(T);
  const auto shape = Shape::of(rows, args.k);
  return {static_cast<const unsigned char*>(from),
          to,
          (AlongK ? args.k : rows) * kSize,
          ld * kSize,
          stride * kSize,
          shape.pitch(),
          shape.bytes(),
          AlongK ? rows : args.k,
          args.batch};
}

/// One launch packs what there is to pack: blockIdx.y 0 is the first such operand. As many threads
/// as a unit of the device holds.
extern "C" __global__ void __launch_bounds__(256, 8)
    kiln_pack(const __grid_constant__ KilnGpuArgs args) {
  auto* workspace = static_cast<unsigned char*>(args.workspace);
  const bool is_a = kPackA && blockIdx.y == 0;
  const Packing p =
      is_a ? packing_of<TypeA, kAlongKA, PackedA>(args.a, workspace + packed_a_at(), args.m,
                                                  args.lda, args.stride_a, args)
                         : packing_of<TypeB, kAlongKB, PackedB>(
                               args.b, workspace + packed_b_at(args), args.n, args.ldb,
                               args.stride_b, args);
                         wait_for_previous_grid();
                         let_next_grid_start();
                         // What both do alike stands in the code once.
                         if (is_a ? PackedA::kTurned : PackedB::kTurned) {
                           if (is_a)
                             pack_across<TypeA>(p);
                           else
                             pack_across<TypeB>(p);
                         } else {
                           pack_lines(p);
                         }
}

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

constexpr int kPart = kSums;
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

KILN_DEVICE void store_single(TypeD* d, u32 bits) { d->bits = u16(bits); }

/// Two elements at a time whatever the row's address is. Where pairs would straddle words, a lane's
/// second element goes out with the first of the lane behind it, or of the next eight right rows.
KILN_DEVICE void store_direct(const Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                              bool) {
  constexpr int kGroups = kSums / 4;
  const int lane = int(threadIdx.x) & 31, place = lane % 4;
  const int length = int(min(out.columns - right, i64(kRightTile)));
  _Pragma("unroll") for (int half = 0; half < 2; ++half) {
    const i64 row = left + half * 8;
    TypeD* d = out.d + row * out.ldd + right;
    const bool there = row < out.rows, straddles = (reinterpret_cast<u64>(d) & 2) != 0;
    u32 two[kGroups];
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      two[g] =
          pack_two(real_of(sums[g * 4 + half * 2]), real_of(sums[g * 4 + half * 2 + 1]), TypeD{});
    if (there && straddles && place == 0 && length > 0) store_single(d, two[0]);
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g) {
      const u32 mine = place == 0 && g + 1 < kGroups ? two[g + 1 < kGroups ? g + 1 : g] : two[g];
      const u32 next = __shfl_sync(0xffffffff, mine, lane / 4 * 4 + (place + 1) % 4);
      const u32 pair = straddles ? __funnelshift_r(two[g], next, 16) : two[g];
      const int first = g * 8 + (straddles ? 1 : 0);
      // The last element of the tile has no partner in it.
      const bool alone = straddles && place == 3 && g + 1 == kGroups;
      if (there && first + 1 < length && !alone)
        *reinterpret_cast<u32*>(d + first) = pair;
      else if (there && first < length)
        store_single(d + first, pair);
    }
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
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s) {
      if (!exact)
        _Pragma("unroll") for (int i = 0; i < kSums; i += kTogether)
          finish_sums(sums[s], out, my_left + s * 64, my_right, i);
    store_direct(sums[s], out, my_left + s * 64, my_right, exact);
  }
}
