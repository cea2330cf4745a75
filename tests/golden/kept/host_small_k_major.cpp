// device:  x86-64-v4
// problem: fp32 N T 5 24 9
// config:  host_small isa=avx512 bytes=64 mr=5 nv=2 unroll=1 parallel=none

// ---- parameters ----
using TypeA = float;              // elements of A
using TypeB = float;              // elements of B
using TypeD = float;              // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vfmadd231ps
constexpr int kM = 5;             // rows of D
constexpr int kN = 24;            // columns of D
constexpr int kK = 9;             // columns of op(A)
constexpr int kLda = 9;           // elements between rows of A
constexpr int kLdb = 9;           // elements between rows of B
constexpr int kLdc = 24;          // elements between rows of C
constexpr int kLdd = 24;          // elements between rows of D
constexpr int kMr = 5;            // rows of the register tile
constexpr int kNv = 2;            // vectors across the register tile
constexpr int kTailVectors = 2;   // vectors that the last columns need
constexpr int kUnroll = 1;        // k steps in the inner loop's body
constexpr int kRowUnit = 5;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 32;   // columns are divided among threads at multiples of this

// ---- cpu/small/small.cpp ----
// Small problems: every size is a constant, nothing is packed, tiles are unrolled as far as
// kUnroll. Expects abi.h, vector.h, epilogue.h, share.h and the parameters.

constexpr int kNr = kNv * kLanes;

/// Element k and those that follow it, as many as a vector holds or k has, of N vectors of columns.
template <int N, int Columns, int Count>
KILN_INLINE void turn_some(Unit* to, const TypeB* b, int column, int k) {
  KILN_UNROLL
  for (int j = 0; j < N; ++j) {
    UnitVec block[kLanes];
    KILN_UNROLL
    for (int r = 0; r < kLanes; ++r) {
      const int x = j * kLanes + r;
      block[r] = x < Columns ? load_units<kLanes>(b + (column + x) * kLdb + k, i64(Count))
                             : UnitVec(Unit(0));
    }
    transpose<kLanes>(block);
    KILN_UNROLL
    for (int r = 0; r < Count; ++r) store(to + ((k + r) * N + j) * kLanes, block[r]);
  }
}

/// Columns of one strip side by side: the order in which its tiles read them.
template <int N, int Columns>
KILN_INLINE void turn(Unit* to, const TypeB* b, int column) {
  constexpr int kWhole = kK / kLanes * kLanes;
#pragma clang loop unroll(disable)
  for (int k = 0; k < kWhole; k += kLanes) turn_some<N, Columns, kLanes>(to, b, column, k);
  if constexpr (kWhole < kK) turn_some<N, Columns, kK - kWhole>(to, b, column, kWhole);
}

/// M rows by N vectors, of which `Columns` elements exist.
template <int M, int N, int Columns>
KILN_INLINE void tile(const TypeA* a,
                      const Unit* b,  // the strip's columns, turned
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
    for (int j = 0; j < N; ++j) right[j] = load<UnitVec>(b + (k * N + j) * kLanes);
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
                       const TypeB* lines,
                       const Output& out, int column) {
  alignas(64) Unit b[kK * N * kLanes];
  turn<N, Columns>(b, lines, column);
  for (int i = 0; i + kMr <= kM; i += kMr) tile<kMr, N, Columns>(a, b, out, i, column);
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

extern "C" __attribute__((noinline)) void kiln_direct(const void* a, const void* b, const void* c,
                                                      void* d, const void* bias,
                                                      const void* residual, double alpha,
                                                      double beta) {
  KilnArgs args{};  // none of it is left in the code
  args.a = a;
  args.b = b;
  args.c = c;
  args.d = d;
  args.bias = bias;
  args.residual = residual;
  args.alpha = alpha;
  args.beta = beta;
  multiply(args, 0);
}
extern "C" void kiln_gemm(const KilnArgs* args, int thread, int) {
  if (thread == 0)
    kiln_direct(args->a, args->b, args->c, args->d, args->bias, args->residual, args->alpha,
                args->beta);
}
