// device:  sm_90a
// problem: fp8 N T 32768 4096 7168 groups=32 grouped=rows rows_of_a=4096 align=16 scale=1x128:128x128 gather=rows scatter=rows
// config:  cuda_wgmma left=128 right=128 stages=6 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=1 pack_b=0 keep_right=0 promote=1

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
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};

// ---- parameters ----
using TypeA = Float8E4;                         // elements of A
using TypeB = Float8E4;                         // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 6;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kGroupRows = 128;                 // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;                 // room in the tables of groups
constexpr int kLeftLines = 1;                   // rows of the left operand that share a scale
constexpr int kRightLines = 128;                // and of the right one
constexpr int kLeftShare = 1;                   // rows of its tile for which a stage has one scale
constexpr int kRightShare = 128;                // and of the right one's
constexpr int kChunk = 64;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 1;                // of each warp
constexpr int kCopyRegisters = 40;              // of the warps that copy
constexpr int kMultiplyRegisters = 232;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = true;                   // A is copied into the workspace first
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

// ---- cuda/common/indices.h ----
// Rows of A and D by index. Expects abi.h, types.h.

/// What a list says of a row of the product, of `rows` that there are. What it may not say becomes
/// the nearest that it may.
KILN_DEVICE int listed_row(const void* list, i64 row, i64 rows) {
  return max(0, min(int(rows) - 1, static_cast<const int*>(list)[row]));
}
/// The row of A.
KILN_DEVICE int row_of_a(const KilnGpuArgs& args, i64 row) {
  return listed_row(args.index_a, row, args.rows_of_a);
}

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
    const Packing& p, const KilnGpuArgs& args
) {
  const u32 units = u32(p.pitch / 16), lines = u32(p.lines);
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 any = t / units, unit = t - any * units;
  const u32 batch = 0, line = any;
  const bool there = line < lines;
  if (!there || i64(unit) * 16 >= p.length) return;
  // A's lines, in the order of the product's rows.
  const auto* end = p.from + (args.rows_of_a - 1) * p.ld + p.length;
  const auto* at = p.from + row_of_a(args, line) * p.ld + unit * 16;
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
                           pack_lines(p, args);
                         }
}

// ---- cuda/common/group_args.h ----
// One group of a grouped problem as a product of its own. Expects abi.h and, from the parameters,
// the types.

/// The call of one group's product, seen as a batch's: `step_a` elements lie between rows of A.
KILN_DEVICE KilnGpuArgs args_of_group(const KilnGpuArgs& args, i64 group, i64 first_row, i64 rows,
                                      i64 step_a) {
  KilnGpuArgs own = args;
  own.m = rows;
  own.batch = 1;
  own.index_a = static_cast<const int*>(args.index_a) + first_row;
  own.index_d = static_cast<const int*>(args.index_d) + first_row;
  own.c = static_cast<const TypeD*>(args.c) + first_row * args.ldc;
  own.residual = static_cast<const TypeD*>(args.residual) + first_row * args.ldd;
  using TypeBias = Real;
  // Less what output_of() adds for a batch.
  return own;
}

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

/// The line's scales whose current one is number `index` of a stage: those of the right tile come
/// first.
KILN_DEVICE const float* scales_at(const KilnGpuArgs& args, const Work& work, int index) {
  if (index >= kRightScales + kLeftScales) return nullptr;
  const bool right = index < kRightScales;
  const int at = right ? index * kRightShare : (index - kRightScales) * kLeftShare;
  if (right == kSwap) {
    i64 batch = work.batch,
        line = i64(kSwap ? work.right * kRightTile : work.left * kLeftTile) + at;
    // Rows of the matrix that all groups share. Scales beyond the group's meet no row that is
    // stored.
    batch = 0;
    line += work.first_row;
    line = line < args.m ? row_of_a(args, line) : -1;
    return scales_of_line < kSwap
               ? kRightLines
               : kLeftLines > (args.scale_a, args.rows_of_a, line, batch, args.k);
  }
  const i64 line = i64(kSwap ? work.left * kLeftTile : work.right * kRightTile) + at,
            lines = args.n;
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

struct alignas(8) FourD {
  TypeD element[4];
};

/// A buffer's elements to D in words of 8 bytes, cut where memory is aligned, whatever the row's
/// first address is. (row0, column0) is the buffer's first element.
KILN_DEVICE void drain_buffer(u32 buffer, const Output& out, i64 row0, i64 column0, int lane) {
  constexpr int kRows = kSwap ? kChunk : 16, kLength = kSwap ? 16 : kChunk;
  constexpr int kWords = kLength / 4 + 1;
  const int length = int(min(i64(kLength), out.columns - column0));
  for (int t = lane; t < kRows * kWords; t += 32) {
    const int row = t / kWords;
    if (row0 + row >= out.rows) continue;
    TypeD* d = row_of_d(out, row0 + row) + column0;
    const int first = t % kWords * 4 - int(reinterpret_cast<u64>(d) >> 1 & 3);
    FourD some;
    _Pragma("unroll") for (int e = 0; e < 4; ++e) {
      const int at = max(0, min(first + e, kLength - 1));
      some.element[e].bits = load_shared_half(buffer + swizzled(row, at / 8) + at % 8 * 2);
    }
    if (first >= 0 && first + 4 <= length) {
      *reinterpret_cast<FourD*>(d + first) = some;
    } else {
      _Pragma("unroll") for (int e = 0; e < 4; ++e)
        if (first + e >= 0 && first + e < length) d[first + e] = some.element[e];
    }
  }
}

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(Acc (&sums)[kSubtiles][kSums], const Work& work,
                            const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                            u32 row_offset, int group, int thread) {
  const Output out = output_of_group(args, work.batch, work.first_row, work.rows);
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
      __syncwarp();
      fill_buffer(sums[s], chunk * (kChunk / 8), here, lane, exact);
      __syncwarp();
      drain_buffer(here, out, row_of(l, r), column_of(l, r), lane);
    }
}
