// The register tile of kMr rows by kNv vectors: whole, and where rows or columns are left over.
// Expects operand.h, epilogue.h, decode.h, transposed.h.
#pragma once

//% if fetch_d || fetch_a || fetch_b
constexpr int kStepsPerFetch = 8;
//% end
/// What a tile lacks: nothing, columns of its last vector, or rows, columns and perhaps that
/// vector.
enum class Lacks { nothing, columns, both };

/// One register tile: M rows by N vectors over k. A ragged tile, which may lack both, skips missing
/// rows, by branches that are predicted. There are some of each width, so they are short: their
/// loop is not unrolled (no difference in speed) and finish() is not repeated.
template <int M, int N, Lacks What>
__attribute__((noinline)) static void tile(const Operand& operands, i64 k, const Output& where,
                                           i64 row, i64 column, int rows, int columns, Pass pass) {
  constexpr bool kRagged = What == Lacks::both, kMasked = What != Lacks::nothing;
  //% if interleaved
  columns *= 2;  // of op(B)
  //% end
  const Operand in = operands;  // copies that stores to D cannot alias
  //% if stream_d
  Output out = where;
  out.lines.row = row, out.lines.column = column;
  //% else
  const Output out = where;
  //% end
  AccVec acc[M][N];
  KILN_UNROLL
  for (int j = 0; j < N; ++j) {
    //% if column_sums
    // A's bytes were shifted by 128 to be unsigned; the column sums undo it.
    AccVec start = AccVec(0);
    if (in.sums) {
      //% if stacked
      start = load<AccVec>(FactorRows<N>(in.sums, in.apart, in.b_pitch).of(j)) * -128;
      //% else
      const int panel = kRagged && j == N - 1 ? (columns - 1) / kLanes : j;  // as PanelRows
      start = load<AccVec>(reinterpret_cast<const char*>(in.sums) + panel * in.b_pitch) * -128;
      //% end
    }
    //% else
    AccVec start = AccVec(Acc(0));
    //% end
    KILN_UNROLL
    for (int i = 0; i < M; ++i) acc[i][j] = start;
  }
  //% if swap
  const auto width = [&](int j) { return kMasked ? columns - j * kLanes : kLanes; };
  if (!pass.first) {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (kRagged && i >= rows) continue;
      KILN_UNROLL
      for (int j = 0; j < N; ++j)
        //% if column_sums
        acc[i][j] += load_first<kLanes>(waiting(out, row, column, i, j), width(j));
      //% else
      acc[i][j] = load_first<kLanes>(waiting(out, row, column, i, j), width(j));
      //% end
    }
  }
  //% end
  //% if packed_b && stacked
  FactorRows<N> right(in.b, in.apart, in.b_pitch);
  //% end
  //% if packed_b && !stacked
  PanelRows<N, kRagged> right(in.b, in.b_pitch, columns);
  //% end
  //% if !packed_b && !grouped && !stacked
  Vec<bool, kLanes> live[N];
  KILN_UNROLL
  for (int j = 0; j < N; ++j)
    live[j] = first_lanes<kLanes>(kMasked ? columns - j * kLanes : kLanes, Iota<kLanes>{});
  //% end
  //% if !packed_b && !grouped && stacked
  Vec<bool, kLanes> live[N];
  KILN_UNROLL
  for (int j = 0; j < N; ++j)
    live[j] =
        first_lanes<kLanes>(kMasked ? columns - j % (N / 2) * kLanes : kLanes, Iota<kLanes>{});
  //% end
  //% if !packed_b && stacked
  const auto column_of = [&](int j) { return j % (N / 2) * kLanes + j / (N / 2) * in.apart; };
  //% end

  auto step = [&](i64 g, i64 count) __attribute__((always_inline)) {
    UnitVec b[N];
    //% if !packed_b && grouped
    //% if stacked
    KILN_UNROLL
    for (int f = 0; f < N; f += N / 2) {
      KILN_UNROLL
      for (int j = 0; j < N / 2; j += kGroup) {
        UnitVec units[kGroup];
        const int left = (kMasked ? columns : N / 2 * kLanes) - j * kLanes;
        load_panels(units, in.b + g * kGroup * in.ldb + column_of(f + j), in.ldb, count,
                    int(smaller(kGroup * kLanes, left)));
        KILN_UNROLL
        for (int s = 0; s < kGroup && j + s < N / 2; ++s) b[f + j + s] = units[s];
      }
    }
    //% else
    KILN_UNROLL
    for (int j = 0; j < N; j += kGroup) {
      UnitVec units[kGroup];
      load_panels(units, in.b + g * kGroup * in.ldb + j * kLanes, in.ldb, count,
                  int(smaller(kGroup * kLanes, (kMasked ? columns : N * kLanes) - j * kLanes)));
      KILN_UNROLL
      for (int s = 0; s < kGroup && j + s < N; ++s) b[j + s] = units[s];
    }
    //% end
    //% else
    KILN_UNROLL
    for (int j = 0; j < N; ++j) {
      //% if packed_b
      b[j] = load<UnitVec>(right.of(j));
      //% else
      //% if stacked
      const TypeB* from = in.b + g * in.ldb + column_of(j);
      //% else
      const TypeB* from = in.b + g * in.ldb + j * kLanes;
      //% end
      if constexpr (kMasked)
        b[j] = units_along<kLanes, TypeB>(__builtin_masked_load(
            live[j], reinterpret_cast<const Raw<TypeB>*>(from), Vec<Raw<TypeB>, kLanes>(0)));
      else
        b[j] = load_units<kLanes>(from);
      //% end
    }
    //% end
    //% if prefetch
    KILN_UNROLL
    for (int j = 0; j < N; ++j) {
      //% if packed_b
      __builtin_prefetch(right.of(j) + kPrefetch * sizeof(UnitVec));
      //% else
      //% if stacked
      __builtin_prefetch(in.b + (g + kPrefetch) * kGroup * in.ldb + column_of(j));
      //% else
      __builtin_prefetch(in.b + (g + kPrefetch) * kGroup * in.ldb + j * kLanes);
      //% end
      //% end
    }
    //% end
    //% if packed_b
    right.advance();
    //% end
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (kRagged && i >= rows) continue;
      //% if pack_a
      UnitVec a = UnitVec(in.a[g * kMr + i]);
      //% else
      UnitVec a = UnitVec(unit_of_a(in, i, g * kGroup, count));
      //% if flip_a
      a ^= kFlip;
      //% end
      //% end
      KILN_UNROLL
      for (int j = 0; j < N; ++j) acc[i][j] = dot(acc[i][j], a, b[j]);
      KILN_UNROLL
      for (int j = 0; j < N; ++j) complete(acc[i][j]);
    }
  };
  const i64 whole = k / kGroup;
  i64 g = 0;
  //% if fetch_d || fetch_a || fetch_b
  // Fetches are spread over the steps: all at once they would hold every fill buffer while the
  // first steps wait for B (measured for D alone: 12 % at n = 1024, kc = 384).
  //% if fetch_a || fetch_b
  const i64 fetches = whole / kStepsPerFetch;
  //% else
  const i64 fetches = kRagged ? 0 : smaller(M, whole / kStepsPerFetch);  // D's rows
  //% end
  for (i64 i = 0; i < fetches; ++i) {
    //% if fetch_a
    fetch<kFetchA>(in.next->a);
    //% end
    //% if fetch_b
    fetch<kFetchB>(in.next->b);
    //% end
    //% if fetch_d && gate
    KILN_UNROLL
    for (int j = 0; j < N / 2; ++j)
      if (!kRagged && i < M)
        __builtin_prefetch(out.d + (row + i) * out.ldd + column + j * kLanes, 1);
    //% end
    //% if fetch_d && !gate
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      if (!kRagged && i < M)
        __builtin_prefetch(out.d + (row + i) * out.ldd + column + j * kLanes, 1);
        //% end
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
    for (int s = 0; s < kStepsPerFetch; ++s) step(g++, kGroup);
  }
#pragma clang loop unroll(disable) vectorize(disable)
  //% else
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
  //% end
  for (; g < whole; ++g) step(g, kGroup);
  //% if grouped
  if (k % kGroup) step(whole, k % kGroup);
  //% end

  //% if swap
  if (pass.last)
    return finish_transposed<M, N>(out, acc, row, column, kRagged ? rows : M,
                                   kMasked ? columns : N * kLanes);
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    if (kRagged && i >= rows) continue;
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      store_first<kLanes>(waiting(out, row, column, i, j), acc[i][j], width(j));
  }
  //% else
  //% if gate
  // Where the vectors of both factors under vector s of D are.
  //% if stacked
  const auto low = [](int s) { return s; };
  const auto high = [](int s) { return N / 2 + s; };
  //% else
  const auto low = [](int s) { return 2 * s; };
  const auto high = [](int s) { return 2 * s + 1; };
  columns /= 2;
  //% end
  if constexpr (kRagged) {
    AccVec sums[M][N];  // a copy: indexed at run time, accumulators would not stay in registers
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j) sums[i][j] = acc[i][j];
    }
#pragma clang loop unroll(disable)
    for (int i = 0; i < rows; ++i) {
#pragma clang loop unroll(disable)
      for (int s = 0; s < N / 2; ++s)
        finish_gated<kLanes>(out, sums[i][low(s)], sums[i][high(s)], row + i, column + s * kLanes,
                             columns - s * kLanes, pass);
    }
  } else {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int s = 0; s < N / 2; ++s)
        finish_gated<kLanes>(out, acc[i][low(s)], acc[i][high(s)], row + i, column + s * kLanes,
                             kMasked && s == N / 2 - 1 ? columns - s * kLanes : kLanes, pass);
    }
  }
  //% else
  if constexpr (kRagged) {
    AccVec sums[M][N];  // a copy: indexed at run time, accumulators would not stay in registers
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j) sums[i][j] = acc[i][j];
    }
#pragma clang loop unroll(disable)
    for (int i = 0; i < rows; ++i) {
#pragma clang loop unroll(disable)
      for (int j = 0; j * kLanes < columns; ++j)
        finish<kLanes>(out, sums[i][j], row + i, column + j * kLanes, columns - j * kLanes, pass);
    }
  } else {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j)
        finish<kLanes>(out, acc[i][j], row + i, column + j * kLanes,
                       kMasked && j == N - 1 ? columns - j * kLanes : kLanes, pass);
    }
  }
  //% end
  //% end
  //% if stream_d
  write_lines(out, kRagged ? rows : M, columns);
  //% end
}

/// A ragged tile of as many vectors as the columns need or one more, N at most: a tile for each
/// number of vectors would take a fifth longer to compile.
template <int N>
KILN_INLINE void ragged_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                             int rows, int columns, Pass pass) {
  //% if gate
  if constexpr (N > 2)
    if (columns <= (N / 2 - 1) * kLanes)
      return ragged_tile<N - 2>(in, k, out, row, column, rows, columns, pass);
  //% else
  constexpr int kNarrower = N > 2 ? N - 2 : 1;
  if constexpr (N > 1)
    if (columns <= kNarrower * kLanes)
      return ragged_tile<kNarrower>(in, k, out, row, column, rows, columns, pass);
  //% end
  tile<kMr, N, Lacks::both>(in, k, out, row, column, rows, columns, pass);
}

KILN_INLINE void any_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                          int rows, int columns, Pass pass) {
  if (rows == kMr && columns == kNr)
    return tile<kMr, kNv, Lacks::nothing>(in, k, out, row, column, rows, columns, pass);
  //% if tail_columns
  if (rows == kMr && columns == kTailColumns) {
    //% if gate
    constexpr int kVectors = (kTailColumns + kLanes - 1) / kLanes * 2;
    //% else
    constexpr int kVectors = (kTailColumns + kLanes - 1) / kLanes;
    //% end
    return tile<kMr, kVectors, Lacks::columns>(in, k, out, row, column, rows, columns, pass);
  }
  //% end
  ragged_tile<kNv>(in, k, out, row, column, rows, columns, pass);
}
