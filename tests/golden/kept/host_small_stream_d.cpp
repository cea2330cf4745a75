// device:  x86-64-v4
// problem: fp32 N N 16 16 16 batch=1000
// config:  host_small isa=avx512 bytes=64 mr=16 nv=1 unroll=4 parallel=none stream_d=1

// ---- parameters ----
using TypeA = float;              // elements of A
using TypeB = float;              // elements of B
using TypeD = float;              // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vfmadd231ps
constexpr int kM = 16;            // rows of D
constexpr int kN = 16;            // columns of D
constexpr int kK = 16;            // columns of op(A)
constexpr int kLda = 16;          // elements between rows of A
constexpr int kLdb = 16;          // elements between rows of B
constexpr int kLdc = 16;          // elements between rows of C
constexpr int kLdd = 16;          // elements between rows of D
constexpr int kMr = 16;           // rows of the register tile
constexpr int kNv = 1;            // vectors across the register tile
constexpr int kUnroll = 4;        // k steps in the inner loop's body
constexpr int kStreamed = 64;     // bytes of D in one store past the caches
constexpr int kRowUnit = 16;      // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 16;   // columns are divided among threads at multiples of this

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
}

extern "C" long long kiln_workspace_bytes(const KilnArgs*, int) { return 0; }

KILN_INLINE void multiply(const KilnArgs& args,
                          bool streams,
                          i64 batch) {
  const auto* a = static_cast<const TypeA*>(args.a) + batch * args.stride_a;
  const auto* b = static_cast<const TypeB*>(args.b) + batch * args.stride_b;
  Output out = output_of(args, batch);
  out.ldd = kLdd;
  out.ldc = kLdc;
  out.streams = streams;
  for (int j = 0; j + kNr <= kN; j += kNr) strip<kNv, kNr>(a, b, out, j);
}

extern "C" void kiln_gemm(const KilnArgs* args, int thread, int threads) {
  const Work work = work_of(*args, thread, threads);
  // Two loops, in each of which the compiler knows `streams`: a branch at every store takes as long
  // as streaming saves.
  if (output_of(*args, 0).streams && args->stride_d * i64(sizeof(TypeD)) % kStreamed == 0) {
    for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch)
      multiply(*args, true, batch);
    __builtin_ia32_sfence();  // streamed stores come before whatever the caller does next
    return;
  }
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch)
    multiply(*args, false, batch);
}
