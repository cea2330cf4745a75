// Dot products: both operands k-major and left where they are, or transposed first where they are
// not; vectors run along k, and a tile of kMr × kNr accumulators is reduced across its lanes at the
// end.
// Expects abi.h, vector.h, epilogue.h, share.h, lanes.h and the parameters.

//% if gate
// A tile holds both factors of its elements of D.
constexpr int kColumns = kNr / 2, kFinishLanes = lanes_for(kColumns);

//% end
/// M rows of A by kNr rows of B^T over k. A ragged tile has fewer rows of A and skips the missing
/// ones, by branches that are predicted; missing rows of B^T repeat the last that exists.
template <int M, bool Ragged>
__attribute__((noinline)) static void tile(const TypeA* a, i64 lda, const TypeB* b, i64 ldb, i64 k,
                                           const Output& where, i64 row, i64 column, int rows,
                                           int columns, AccVec* waiting, Pass pass) {
  const Output out = where;  // a copy that stores to D cannot alias
  AccVec acc[M][kNr];
  //% if shift_a
  AccVec sums[kNr];  // of B's bytes: A's are shifted by 128 to be unsigned
  KILN_UNROLL
  for (int j = 0; j < kNr; ++j) sums[j] = AccVec(0);
  //% end
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) {
      //% if blocked_k
      acc[i][j] = pass.first || (Ragged && i >= rows) ? AccVec(Acc(0)) : waiting[i * kNr + j];
      //% else
      acc[i][j] = AccVec(Acc(0));
      //% end
    }
  }
  const TypeA* from_a[M];
  const TypeB* from_b[kNr];
  KILN_UNROLL
  for (int i = 0; i < M; ++i) from_a[i] = a + i * lda;
  KILN_UNROLL
  //% if stacked
  for (int j = 0; j < kNr; ++j) {
    // `b` is row `column` of B^T; the tile has those of each factor from half of that.
    const i64 of_factor = column / 2 + smaller(j % kColumns, columns / 2 - 1);
    from_b[j] = b + (of_factor + j / kColumns * out.columns - column) * ldb;
  }
  //% else
  for (int j = 0; j < kNr; ++j) from_b[j] = b + (j < columns ? j : columns - 1) * ldb;
  //% end

  auto step = [&](auto units_of_a, auto units_of_b) __attribute__((always_inline)) {
    UnitVec right[kNr];
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) right[j] = units_of_b(from_b[j]);
    //% if shift_a
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) sums[j] = dot(sums[j], UnitVec(0x01010101u), right[j]);
    //% end
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (Ragged && i >= rows) continue;
      UnitVec left = units_of_a(from_a[i]);
      //% if shift_a
      left ^= 0x80808080u;
      //% end
      KILN_UNROLL
      for (int j = 0; j < kNr; ++j) acc[i][j] = dot(acc[i][j], left, right[j]);
    }
  };
  constexpr i64 kStep = kLanes * kGroup;
  i64 at = 0;
#pragma clang loop unroll(disable) vectorize(disable)
  for (; at + kStep <= k; at += kStep) {
    //% if prefetch
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) __builtin_prefetch(from_b[j] + at + kPrefetch * kStep);
    //% end
    //% if ahead
    // The next tile's rows: each is too short a run for the hardware's prefetchers.
    KILN_UNROLL
    for (int i = 0; i < M; ++i) __builtin_prefetch(from_a[i] + M * lda + at);
    //% end
    step([&](const TypeA* p) { return load_units<kLanes>(p + at); },
         [&](const TypeB* p) { return load_units<kLanes>(p + at); });
  }
  if (at < k)
    step([&](const TypeA* p) { return load_units<kLanes>(p + at, k - at); },
         [&](const TypeB* p) { return load_units<kLanes>(p + at, k - at); });

  //% if shift_a
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) acc[i][j] -= sums[j] * 128;
  }
  //% end
  //% if blocked_k
  if (!pass.last) {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (Ragged && i >= rows) continue;
      KILN_UNROLL
      for (int j = 0; j < kNr; ++j) waiting[i * kNr + j] = acc[i][j];
    }
    return;
  }
  //% end
  auto finish_row = [&](const AccVec(&of)[kNr], int i) __attribute__((always_inline)) {
    //% if gate
    //% if stacked
    constexpr int kApart = kColumns;
    //% else
    constexpr int kApart = kFinishLanes;
    //% end
    Vec<Acc, kFinishLanes> both[2] = {Vec<Acc, kFinishLanes>(Acc(0)),
                                      Vec<Acc, kFinishLanes>(Acc(0))};
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) both[j / kApart][j % kApart] = add_lanes<kLanes>(of[j]);
    finish_gated<kFinishLanes>(out, both[0], both[1], row + i, column / 2, columns / 2,
                               {true, true});
    //% else
    Vec<Acc, lanes_for(kNr)> total = Acc(0);
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) total[j] = add_lanes<kLanes>(of[j]);
    finish<lanes_for(kNr)>(out, total, row + i, column, columns, {true, true});
    //% end
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
  //% if blocked_k
  //% if blocked_m
  return (smaller(args.division.mc, args.m) + kMr - 1) / kMr * (kMr * kNr);
  //% else
  return (args.m + kMr - 1) / kMr * (kMr * kNr);
  //% end
  //% else
  return 0;
  //% end
}

//% if pack_a || pack_b
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

//% end
KILN_INLINE i64 vectors_of_thread(const KilnArgs& args) {
  i64 vectors = vectors_waiting(args);
  //% if pack_a
  vectors += (args.m * transposed_ld(args.k) * i64(sizeof(TypeA)) - 1) / i64(sizeof(AccVec)) + 1;
  //% end
  //% if pack_b
  vectors += (kNr * transposed_ld(args.k) * i64(sizeof(TypeB)) - 1) / i64(sizeof(AccVec)) + 1;
  //% end
  return vectors;
}

static void multiply(const KilnArgs& args, AccVec* waiting, const Output& out, Range rows,
                     Range columns) {
  //% if gate
  columns = {2 * columns.begin, 2 * columns.end};  // of op(B)
  //% end
  const auto* a = static_cast<const TypeA*>(args.a);
  const auto* b = static_cast<const TypeB*>(args.b);
  //% if pack_a || pack_b
  void* const own_rows = waiting + vectors_waiting(args);
  const i64 own_ld = transposed_ld(args.k);
  //% end
  //% if pack_a
  auto* const a_rows = static_cast<TypeA*>(own_rows);
  transpose(a + rows.begin, args.lda, rows.end - rows.begin, args.k, a_rows);
  //% end
  //% if pack_b
  auto* const b_rows = static_cast<TypeB*>(own_rows);
  //% end
  //% if blocked_k
  const i64 kc = args.division.kc;
  //% end
  //% if blocked_m
  const i64 mc = args.division.mc;
  //% else
  const i64 mc = rows.end - rows.begin;
  //% end
  for (i64 i0 = rows.begin; i0 < rows.end; i0 += mc) {
    const i64 i1 = smaller(i0 + mc, rows.end);
    for (i64 j = columns.begin; j < columns.end; j += kNr) {
      const int width = int(smaller(kNr, columns.end - j));
      //% if pack_b
      transpose(b + j, args.ldb, width, args.k, b_rows);
      //% end
      //% if blocked_k
      for (i64 k0 = 0; k0 < args.k || k0 == 0; k0 += kc) {
        const i64 k = smaller(kc, args.k - k0);
        const Pass pass{k0 == 0, k0 + kc >= args.k};
        //% include cpu/dot/tiles_down.h
      }
      //% else
      const i64 k0 = 0, k = args.k;
      const Pass pass{true, true};
      //% include cpu/dot/tiles_down.h
      //% end
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
