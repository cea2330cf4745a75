// What computes D^T: the call with its operands exchanged, and tiles that are transposed while they
// are stored in D. Expects epilogue.h, pack.h, share.h and, from the parameters, kFinishLanes.
#pragma once

//% if swap
template <typename T>
KILN_INLINE void exchange(T& a, T& b) {
  const T kept = a;
  a = b;
  b = kept;
}

/// The call as its transposed product. C and D stay as they are: only a tile's store sees them.
KILN_INLINE KilnArgs transposed(KilnArgs args) {
  exchange(args.a, args.b);
  exchange(args.m, args.n);
  exchange(args.lda, args.ldb);
  exchange(args.stride_a, args.stride_b);
  return args;
}

KILN_INLINE Work transposed(Work work) {
  exchange(work.rows, work.columns);
  return work;
}

/// Where the accumulators of a tile wait for the next block of k.
KILN_INLINE Acc* waiting(const Output& out, i64 row, i64 column, int i, int j) {
  return out.partial.at(row + i, column + j * kLanes);
}

/// Finishes a tile of D^T: its row is a column of D. Accumulators are transposed a square of
/// kFinishLanes at a time, since a row of D gets only as many elements as the tile has rows.
template <int M, int N>
KILN_INLINE void finish_transposed(const Output& out, const AccVec (&acc)[M][N], i64 row,
                                   i64 column, int rows, int columns) {
  constexpr int P = kFinishLanes;
  AccVec sums[M][N];  // a copy: indexed at run time, accumulators would not stay in registers
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    KILN_UNROLL
    for (int j = 0; j < N; ++j) sums[i][j] = acc[i][j];
  }
  for (int i = 0; i < rows; i += P) {
#pragma clang loop unroll(disable)
    for (int l = 0; l < columns; l += P) {
      Vec<Unit, P> block[P];
      KILN_UNROLL
      for (int r = 0; r < P; ++r)  // in place of a row that does not exist, the last one
        block[r] =
            load<Vec<Unit, P>>(reinterpret_cast<const Acc*>(sums[smaller(i + r, M - 1)]) + l);
      transpose<P>(block);
      Vec<Unit, P> lines[P];
      KILN_UNROLL
      for (int r = 0; r < P; ++r) lines[r] = block[r];
#pragma clang loop unroll(disable)
      for (int r = 0; r < P && l + r < columns; ++r)
        finish<P>(out, bits_of<Vec<Acc, P>>(lines[r]), column + l + r, row + i, rows - i,
                  {true, true});
    }
  }
}
//% end
