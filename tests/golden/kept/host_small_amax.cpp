// device:  x86-64-v4
// problem: fp32 N N 11 24 9 amax=1
// config:  host_small isa=avx512 bytes=64 mr=8 nv=2 unroll=1 parallel=none

// ---- parameters ----
using TypeA = float;              // elements of A
using TypeB = float;              // elements of B
using TypeD = float;              // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vfmadd231ps
constexpr int kM = 11;            // rows of D
constexpr int kN = 24;            // columns of D
constexpr int kK = 9;             // columns of op(A)
constexpr int kLda = 9;           // elements between rows of A
constexpr int kLdb = 24;          // elements between rows of B
constexpr int kLdc = 24;          // elements between rows of C
constexpr int kLdd = 24;          // elements between rows of D
constexpr int kMr = 8;            // rows of the register tile
constexpr int kNv = 2;            // vectors across the register tile
constexpr int kTailVectors = 2;   // vectors that the last columns need
constexpr int kTailRows = 3;      // rows that are left over
constexpr int kUnroll = 1;        // k steps in the inner loop's body
constexpr int kRowUnit = 8;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 32;   // columns are divided among threads at multiples of this

// ---- cpu/small/small.cpp ----
// Small problems: every size is a constant, nothing is packed, tiles are unrolled as far as
// kUnroll. Expects abi.h, vector.h, epilogue.h, share.h and the parameters.

constexpr int kNr = kNv * kLanes;

/// M rows by N vectors, of which `Columns` elements exist.
template <int M, int N, int Columns>
KILN_INLINE void tile(const TypeA* a,
                      const TypeB* b,
                      const Output& out, int row, int column) {
  AccVec acc[M][N];
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    KILN_UNROLL
    for (int j = 0; j < N; ++j) acc[i][j] = AccVec(Acc(0));
  }
  auto step = [&](int k) __attribute__((always_inline)) {
    UnitVec right[N];
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      right[j] =
          load_across<kLanes>(b + k * kLdb + column + j * kLanes, kLdb, 1, Columns - j * kLanes);
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      UnitVec left = UnitVec(gather_unit(a + (row + i) * kLda + k, 1, 1));
      KILN_UNROLL
      for (int j = 0; j < N; ++j) acc[i][j] = dot(acc[i][j], left, right[j]);
    }
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j) complete(acc[i][j]);
    }
  };
#pragma clang loop unroll_count(kUnroll) vectorize(disable)
  for (int k = 0; k < kK; ++k) step(k);
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      finish<kLanes>(out, acc[i][j], row + i, column + j * kLanes, Columns - j * kLanes,
                     {true, true});
  }
}

/// All rows of one strip of columns.
template <int N, int Columns>
KILN_INLINE void strip(const TypeA* a,
                       const TypeB* b,
                       const Output& out, int column) {
  for (int i = 0; i + kMr <= kM; i += kMr) tile<kMr, N, Columns>(a, b, out, i, column);
  tile<kTailRows, N, Columns>(a, b, out, kM - kTailRows, column);
}

extern "C" long long kiln_workspace_bytes(const KilnArgs*, int) { return 0; }

KILN_INLINE void multiply(const KilnArgs& args,
                          i64 batch) {
  const auto* a = static_cast<const TypeA*>(args.a) + batch * args.stride_a;
  const auto* b = static_cast<const TypeB*>(args.b) + batch * args.stride_b;
  Output out = output_of(args, batch);
  out.ldd = kLdd;
  out.ldc = kLdc;
  strip<kTailVectors, kN % kNr>(a, b, out, kN / kNr * kNr);
}

extern "C" void kiln_gemm(const KilnArgs* args, int thread, int threads) {
  const Work work = work_of(*args, thread, threads);
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) multiply(*args, batch);
}
