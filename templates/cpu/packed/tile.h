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
  //% include cpu/packed/tile/start.h
  //% include cpu/packed/tile/b_of_tile.h

  auto step = [&](i64 g, i64 count) __attribute__((always_inline)) {
    UnitVec b[N];
    //% if packed_b
    //% include cpu/packed/tile/read_b_panels.h
    //% end
    //% if !packed_b && dotted
    //% include cpu/packed/tile/read_b_groups.h
    //% end
    //% if !packed_b && !dotted
    //% include cpu/packed/tile/read_b_rows.h
    //% end
    //% if !packed_b && prefetch
    //% include cpu/packed/tile/prefetch_b.h
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
  //% include cpu/packed/tile/over_k.h

  //% if swap
  if (pass.last)
    return finish_transposed<M, N>(out, acc, row, column, kRagged ? rows : M,
                                   kMasked ? columns : N * kLanes);
  //% include cpu/packed/tile/keep.h
  //% end
  //% if !swap && gate
  //% include cpu/packed/tile/finish_gated.h
  //% end
  //% if !swap && !gate
  //% include cpu/packed/tile/finish_rows.h
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
