// device:  x86-64-v4
// problem: bf16 N N 4008 3 1529
// config:  host_dot isa=avx512 mr=8 nr=3 kc=0 mc=0 parallel=none prefetch=0 pack_b=1 ahead=1

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = Bfloat;             // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vdpbf16ps
constexpr int kMr = 8;            // rows of A in the tile
constexpr int kNr = 3;            // rows of B^T in the tile
constexpr int kRowUnit = 8;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 3;    // columns are divided among threads at multiples of this

// ---- cpu/dot/dot.cpp ----
// Dot products: both operands k-major and left where they are, or transposed first where they are
// not; vectors run along k, and a tile of kMr × kNr accumulators is reduced across its lanes at the
// end.
// Expects abi.h, vector.h, epilogue.h, share.h, lanes.h and the parameters.

/// M rows of A by kNr rows of B^T over k. A ragged tile has fewer rows of A and skips the missing
/// ones, by branches that are predicted; missing rows of B^T repeat the last that exists.
template <int M, bool Ragged>
__attribute__((noinline)) static void tile(const TypeA* a, i64 lda, const TypeB* b, i64 ldb, i64 k,
                                           const Output& where, i64 row, i64 column, int rows,
                                           int columns, AccVec* waiting, Pass pass) {
  const Output out = where;  // a copy that stores to D cannot alias
  AccVec acc[M][kNr];
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) {
      acc[i][j] = AccVec(Acc(0));
    }
  }
  const TypeA* from_a[M];
  const TypeB* from_b[kNr];
  KILN_UNROLL
  for (int i = 0; i < M; ++i) from_a[i] = a + i * lda;
  KILN_UNROLL
  for (int j = 0; j < kNr; ++j) from_b[j] = b + (j < columns ? j : columns - 1) * ldb;

  auto step = [&](auto units_of_a, auto units_of_b) __attribute__((always_inline)) {
    UnitVec right[kNr];
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) right[j] = units_of_b(from_b[j]);
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (Ragged && i >= rows) continue;
      UnitVec left = units_of_a(from_a[i]);
      KILN_UNROLL
      for (int j = 0; j < kNr; ++j) acc[i][j] = dot(acc[i][j], left, right[j]);
    }
  };
  constexpr i64 kStep = kLanes * kGroup;
  i64 at = 0;
#pragma clang loop unroll(disable) vectorize(disable)
  for (; at + kStep <= k; at += kStep) {
    // The next tile's rows: each is too short a run for the hardware's prefetchers.
    KILN_UNROLL
    for (int i = 0; i < M; ++i) __builtin_prefetch(from_a[i] + M * lda + at);
    step([&](const TypeA* p) { return load_units<kLanes>(p + at); },
         [&](const TypeB* p) { return load_units<kLanes>(p + at); });
  }
  if (at < k)
    step([&](const TypeA* p) { return load_units<kLanes>(p + at, k - at); },
         [&](const TypeB* p) { return load_units<kLanes>(p + at, k - at); });

  auto finish_row = [&](const AccVec(&of)[kNr], int i) __attribute__((always_inline)) {
    Vec<Acc, lanes_for(kNr)> total = Acc(0);
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) total[j] = add_lanes<kLanes>(of[j]);
    finish<lanes_for(kNr)>(out, total, row + i, column, columns, {true, true});
  };
  if constexpr (Ragged) {
    AccVec copy[M][kNr];  // indexed at run time, accumulators would not stay in registers
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < kNr; ++j) copy[i][j] = acc[i][j];
    }
#pragma clang loop unroll(disable)
    for (int i = 0; i < rows; ++i) finish_row(copy[i], i);
  } else {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) finish_row(acc[i], i);
  }
}

/// Accumulators that wait between passes over k.
KILN_INLINE i64 vectors_waiting(const KilnArgs& args) {
  return 0;
}

/// Elements between two rows of a transposed operand.
KILN_INLINE i64 transposed_ld(i64 k) {
  constexpr i64 kStep = kLanes * kGroup;
  return (k + kStep - 1) / kStep * kStep;
}

/// `rows` neighbours of each k, as rows along k.
template <typename T>
static void transpose(const T* from, i64 ld, i64 rows, i64 k, T* to) {
  constexpr i64 kBlock = 64;  // its lines stay in L1 until all their elements are read
  const i64 to_ld = transposed_ld(k);
  for (i64 k0 = 0; k0 < k; k0 += kBlock) {
    const i64 k1 = smaller(k0 + kBlock, k);
    for (i64 row = 0; row < rows; ++row)
      for (i64 at = k0; at < k1; ++at) to[row * to_ld + at] = from[at * ld + row];
  }
}

KILN_INLINE i64 vectors_of_thread(const KilnArgs& args) {
  i64 vectors = vectors_waiting(args);
  vectors += (kNr * transposed_ld(args.k) * i64(sizeof(TypeB)) - 1) / i64(sizeof(AccVec)) + 1;
  return vectors;
}

static void multiply(const KilnArgs& args, AccVec* waiting, const Output& out, Range rows,
                     Range columns) {
  const auto* a = static_cast<const TypeA*>(args.a);
  const auto* b = static_cast<const TypeB*>(args.b);
  void* const own_rows = waiting + vectors_waiting(args);
  const i64 own_ld = transposed_ld(args.k);
  auto* const b_rows = static_cast<TypeB*>(own_rows);
  const i64 mc = rows.end - rows.begin;
  for (i64 i0 = rows.begin; i0 < rows.end; i0 += mc) {
    const i64 i1 = smaller(i0 + mc, rows.end);
    for (i64 j = columns.begin; j < columns.end; j += kNr) {
      const int width = int(smaller(kNr, columns.end - j));
      transpose(b + j, args.ldb, width, args.k, b_rows);
      const i64 k0 = 0, k = args.k;
      const Pass pass{true, true};
      for (i64 i = i0; i < i1; i += kMr) {
        AccVec* own = waiting + (i - i0) / kMr * (kMr * kNr);
        const int height = int(smaller(kMr, i1 - i));
        auto any_tile = height == kMr ? tile<kMr, false> : tile<kMr, (kMr > 1)>;
        any_tile(a + i * args.lda + k0, args.lda, b_rows + k0, own_ld, k, out, i, j, height, width, own,
                 pass);
      }
    }
  }
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return vectors_of_thread(*args) * i64(sizeof(AccVec)) * threads;
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  KilnArgs args = *all;
  const Work work = work_of(args, thread, threads);
  AccVec* waiting = static_cast<AccVec*>(args.workspace) + thread * vectors_of_thread(args);
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    multiply(args, waiting, output_of(args, batch), work.rows, work.columns);
  }
}
