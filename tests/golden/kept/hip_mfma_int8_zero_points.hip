// device:  gfx942
// problem: int8 N T 4096 4096 4096 out=bf16 align=16 scale=line zero_a=line
// config:  hip_mfma rows=16 k=32 tile_m=128 tile_n=128 depth=128 waves_m=2 waves_n=2 staging=single banks=by_row splits=1 chunk=16 group=4 priority=0 fence=0 pace=free turn=0

// ---- parameters ----
using TypeA = i8;                    // elements of A
using TypeB = i8;                    // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = i32;                     // accumulators
using Real = float;                  // what the epilogue computes in
using FragmentA = i64;               // a lane's part of the instruction's first operand: of B
using FragmentB = i64;               // and of its second one: of A
using Four = Vector<u16, 4>;         // four elements of D
constexpr int kTileM = 128;          // rows of D in a block's tile
constexpr int kTileN = 128;          // columns of it
constexpr int kTileK = 128;          // k of one stage
constexpr int kElement = 1;          // bytes of an element of A and B
constexpr int kDepthBytes = 128;     // of a row in one stage
constexpr int kRowBytes = 128;       // from row to row in shared memory
constexpr int kSwizzleShift = 0;     // bits of the row that the swizzle leaves out
constexpr int kWavesM = 2;           // waves along m
constexpr int kWavesN = 2;           // waves along n
constexpr int kThreads = 256;        // of a block
constexpr int kWavesPerUnit = 1;     // waves of a block that share a SIMD
constexpr int kRows = 16;            // rows and columns of one instruction
constexpr int kSums = 4;             // accumulators of a lane, for one instruction
constexpr int kStages = 1;           // in shared memory
constexpr int kSharedBytes = 32768;  // of all stages
constexpr int kWidthA = 16;          // bytes of a load of A
constexpr int kWidthB = 16;          // bytes of a load of B
constexpr int kGroup = 4;            // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;           // parts that k is divided into
constexpr int kChiplets = 8;         // that blocks are dealt to in turn
constexpr int kChunk = 16;           // neighbouring blocks that one chiplet gets
constexpr bool kAlongA = true;       // A's rows lie along k
constexpr bool kAlongB = true;       // B's rows lie along k
#define KILN_MFMA mfma_16x16x32_s8
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_i32_16x16x32_i8

// ---- hip/common/epilogue.h ----
// What happens to an accumulator: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

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
  const u32* zero_a;         // one a row, or one
  const u32* column_sums_b;  // of op(B)
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
  out.scale_a = static_cast<const float*>(args.scale_a) + batch * args.m;
  out.scale_b = static_cast<const float*>(args.scale_b) + batch * args.n;
  out.zero_a = static_cast<const u32*>(args.zero_a) + batch * args.m;
  out.column_sums_b = static_cast<const u32*>(args.column_sums_b) + batch * args.n;
  return out;
}

/// What is stored at an element that exists.
KILN_DEVICE TypeD finish(const Output& out, Acc sum, i64 row, i64 column) {
  // Every product is rounded by itself: which of them a compiler fuses with an addition differs
  // from kernel to kernel, and the bits of an element must not.
#pragma clang fp contract(off)
  // As unsigned numbers, which may wrap on the way to what fits.
  sum = Acc(u32(sum) - out.zero_a[row] * out.column_sums_b[column]);
  Real x = Real(sum);
  x *= out.scale_a[row];
  x *= out.scale_b[column];
  x *= out.alpha;
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  return from_real(x, TypeD{});
}
/// Stores an element that exists.
KILN_DEVICE void finish_and_store(const Output& out, Acc sum, i64 row, i64 column) {
  out.d[row * out.ldd + column] = finish(out, sum, row, column);
}
