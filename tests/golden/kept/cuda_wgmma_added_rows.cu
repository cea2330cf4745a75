// device:  sm_90a
// problem: bf16 N T 32768 7168 2048 groups=32 grouped=rows rows_of_d=4096 align=16 scatter=weighted
// config:  cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=2 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0

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
  const void* row_weights;  // an fp32 for each row of the product
  // Of D, to whose rows those of the product are added: `d`, `c` and `beta` are the product's then,
  // which lies in the workspace.
  void* sums;
  const void* sums_c;  // not read when sums_beta == 0
  long long ld_sums, ld_sums_c;
  double sums_beta;
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = float;                            // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 256;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 128;                      // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 2;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kGroupRows = 256;                 // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;                 // room in the tables of groups
constexpr int kChunk = 32;                      // right rows that one store buffer holds
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
using TypeSum = Bfloat;                         // elements of D, whose rows are sums of rows of the product
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127}"
#define KILN_WGMMA_OPERANDS "%128, %129, p, 1, 1, 0, 0"
#define KILN_WGMMA_ACCUMULATE "130"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63]), \
  "+f"((d)[64]), "+f"((d)[65]), "+f"((d)[66]), "+f"((d)[67]), "+f"((d)[68]), "+f"((d)[69]), "+f"((d)[70]), "+f"((d)[71]), \
  "+f"((d)[72]), "+f"((d)[73]), "+f"((d)[74]), "+f"((d)[75]), "+f"((d)[76]), "+f"((d)[77]), "+f"((d)[78]), "+f"((d)[79]), \
  "+f"((d)[80]), "+f"((d)[81]), "+f"((d)[82]), "+f"((d)[83]), "+f"((d)[84]), "+f"((d)[85]), "+f"((d)[86]), "+f"((d)[87]), \
  "+f"((d)[88]), "+f"((d)[89]), "+f"((d)[90]), "+f"((d)[91]), "+f"((d)[92]), "+f"((d)[93]), "+f"((d)[94]), "+f"((d)[95]), \
  "+f"((d)[96]), "+f"((d)[97]), "+f"((d)[98]), "+f"((d)[99]), "+f"((d)[100]), "+f"((d)[101]), "+f"((d)[102]), "+f"((d)[103]), \
  "+f"((d)[104]), "+f"((d)[105]), "+f"((d)[106]), "+f"((d)[107]), "+f"((d)[108]), "+f"((d)[109]), "+f"((d)[110]), "+f"((d)[111]), \
  "+f"((d)[112]), "+f"((d)[113]), "+f"((d)[114]), "+f"((d)[115]), "+f"((d)[116]), "+f"((d)[117]), "+f"((d)[118]), "+f"((d)[119]), \
  "+f"((d)[120]), "+f"((d)[121]), "+f"((d)[122]), "+f"((d)[123]), "+f"((d)[124]), "+f"((d)[125]), "+f"((d)[126]), "+f"((d)[127])
#define KILN_WGMMA_REGISTER "f"
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/common/add_rows.cu ----
// Adds rows of the product, which is in the workspace, to rows of D. Lists of which rows those are
// lie before the product. Expects abi.h, types.h, epilogue.h, and from the parameters TypeSum, the
// type of D, which rows of the product do not have.

/// Of each row of D the first row of the product that is added to it, of each row of the product
/// the next one; negative: none.
struct RowLists {
  int *first, *next;
};
KILN_DEVICE RowLists row_lists(const KilnGpuArgs& args) {
  const i64 bytes = ceil_div((args.rows_of_d + args.m) * 4, 256) * 256;
  int* const first = reinterpret_cast<int*>(static_cast<u8*>(args.d) - bytes);
  return {first, first + args.rows_of_d};
}

/// How many rows of the product are of a group; asked by whole warps.
KILN_DEVICE i64 rows_in_groups(const KilnGpuArgs& args, int lane) {
  const int* const ends = static_cast<const int*>(args.groups);
  int most = 0;
  for (i64 group = lane; group < args.batch; group += 32) most = max(most, ends[group]);
  for (int apart = 16; apart > 0; apart /= 2)
    most = max(most, __shfl_xor_sync(0xffffffff, most, apart));
  return i64(most) < args.m ? i64(most) : args.m;
}

/// A warp has a range of D's rows. It walks the list of rows from its end, and puts each row of the
/// product before those that it found: the order of a row's sum is that of the product's rows.
extern "C" __global__ void __launch_bounds__(128)
    kiln_list_rows(const __grid_constant__ KilnGpuArgs args) {
  const int lane = int(threadIdx.x) % 32;
  const i64 warp = (i64(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const i64 warps = i64(gridDim.x) * blockDim.x / 32;
  const i64 begin = args.rows_of_d * warp / warps, end = args.rows_of_d * (warp + 1) / warps;
  const RowLists lists = row_lists(args);
  for (i64 row = begin + lane; row < end; row += 32) lists.first[row] = -1;
  __syncwarp();
  const int last = int(args.rows_of_d - 1);
  const int* const index = static_cast<const int*>(args.index_d);
  const i64 rows = rows_in_groups(args, lane);
  constexpr int kLoads = 8;  // on their way at once
  for (i64 at = (ceil_div(rows, 32 * kLoads) - 1) * 32 * kLoads; at >= 0; at -= 32 * kLoads) {
    // What the list may not say becomes D's last row; a negative number names none.
    int to[kLoads];
    _Pragma("unroll") for (int i = 0; i < kLoads; ++i) {
      const i64 from = at + i * 32 + lane;
      to[i] = from < rows ? min(last, index[from]) : -1;
    }
    _Pragma("unroll") for (int i = kLoads - 1; i >= 0; --i) {
      u32 mine = __ballot_sync(0xffffffff, to[i] >= begin && to[i] < end);
      while (mine != 0) {
        const int of_lane = 31 - __clz(int(mine));
        mine ^= 1u << of_lane;
        const int row = __shfl_sync(0xffffffff, to[i], of_lane), from = int(at) + i * 32 + of_lane;
        if (lane != 0) continue;
        lists.next[from] = lists.first[row];
        lists.first[row] = from;
      }
    }
  }
}

/// A block has pieces of rows of D; neighbouring threads have neighbouring columns.
extern "C" __global__ void __launch_bounds__(256)
    kiln_add_rows(const __grid_constant__ KilnGpuArgs args) {
  constexpr int kThreads = 256, kColumns = 4;  // of a thread
  const RowLists lists = row_lists(args);
  const auto* const rows = static_cast<const TypeD*>(args.d);
  const i64 across = ceil_div(args.n, kThreads * kColumns);
  for (i64 piece = blockIdx.x; piece < args.rows_of_d * across; piece += gridDim.x) {
    const i64 row = piece / across, column = piece % across * kThreads * kColumns + threadIdx.x;
    Real sum[kColumns] = {};
    for (int i = lists.first[row]; i >= 0; i = lists.next[i]) {
      const TypeD* const from = rows + i * args.ldd;
      const Real weight = static_cast<const float*>(args.row_weights)[i];
      _Pragma("unroll") for (int j = 0; j < kColumns; ++j) {
        if (column + j * kThreads >= args.n) continue;
        sum[j] += product(weight, from[column + j * kThreads]);
      }
    }
    _Pragma("unroll") for (int j = 0; j < kColumns; ++j) {
      const i64 at = column + j * kThreads;
      if (at >= args.n) continue;
      if (args.sums_beta != 0) {
        const auto* const c = static_cast<const TypeSum*>(args.sums_c) + row * args.ld_sums_c;
        sum[j] += product(Real(args.sums_beta), to_real(c[at]));
      }
      static_cast<TypeSum*>(args.sums)[row * args.ld_sums + at] = from_real(sum[j], TypeSum{});
    }
  }
}
