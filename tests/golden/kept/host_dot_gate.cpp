// device:  x86-64-v4
// problem: bf16 N T 4 4096 2048 gate=gelu
// config:  host_dot isa=avx512 mr=4 nr=6 kc=0 mc=0 parallel=none prefetch=0

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = Bfloat;             // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vdpbf16ps
constexpr int kMr = 4;            // rows of A in the tile
constexpr int kNr = 6;            // rows of B^T in the tile
constexpr int kRowUnit = 4;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 3;    // columns are divided among threads at multiples of this

// ---- cpu/dot/dot.cpp ----
// Dot products: both operands k-major and left where they are, or transposed first where they are
// not; vectors run along k, and a tile of kMr × kNr accumulators is reduced across its lanes at the
// end.
// Expects abi.h, vector.h, epilogue.h, share.h, lanes.h and the parameters.

// A tile holds both factors of its elements of D.
constexpr int kColumns = kNr / 2, kFinishLanes = lanes_for(kColumns);

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
  for (int j = 0; j < kNr; ++j) {
    // `b` is row `column` of B^T; the tile has those of each factor from half of that.
    const i64 of_factor = column / 2 + smaller(j % kColumns, columns / 2 - 1);
    from_b[j] = b + (of_factor + j / kColumns * out.columns - column) * ldb;
  }

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
    step([&](const TypeA* p) { return load_units<kLanes>(p + at); },
         [&](const TypeB* p) { return load_units<kLanes>(p + at); });
  }
  if (at < k)
    step([&](const TypeA* p) { return load_units<kLanes>(p + at, k - at); },
         [&](const TypeB* p) { return load_units<kLanes>(p + at, k - at); });

  auto finish_row = [&](const AccVec(&of)[kNr], int i) __attribute__((always_inline)) {
    constexpr int kApart = kColumns;
    Vec<Acc, kFinishLanes> both[2] = {Vec<Acc, kFinishLanes>(Acc(0)),
                                      Vec<Acc, kFinishLanes>(Acc(0))};
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) both[j / kApart][j % kApart] = add_lanes<kLanes>(of[j]);
    finish_gated<kFinishLanes>(out, both[0], both[1], row + i, column / 2, columns / 2,
                               {true, true});
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

KILN_INLINE i64 vectors_of_thread(const KilnArgs& args) {
  i64 vectors = vectors_waiting(args);
  return vectors;
}

static void multiply(const KilnArgs& args, AccVec* waiting, const Output& out, Range rows,
                     Range columns) {
  columns = {2 * columns.begin, 2 * columns.end};  // of op(B)
  const auto* a = static_cast<const TypeA*>(args.a);
  const auto* b = static_cast<const TypeB*>(args.b);
  const i64 mc = rows.end - rows.begin;
  for (i64 i0 = rows.begin; i0 < rows.end; i0 += mc) {
    const i64 i1 = smaller(i0 + mc, rows.end);
    for (i64 j = columns.begin; j < columns.end; j += kNr) {
      const int width = int(smaller(kNr, columns.end - j));
      const i64 k0 = 0, k = args.k;
      const Pass pass{true, true};
      for (i64 i = i0; i < i1; i += kMr) {
        AccVec* own = waiting + (i - i0) / kMr * (kMr * kNr);
        const int height = int(smaller(kMr, i1 - i));
        auto any_tile = height == kMr ? tile<kMr, false> : tile<kMr, (kMr > 1)>;
        any_tile(a + i * args.lda + k0, args.lda, b + j * args.ldb + k0, args.ldb, k, out, i, j, height,
                 width, own, pass);
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
