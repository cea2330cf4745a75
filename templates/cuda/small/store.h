// Accumulators become elements of D: each lane stores its own, or leaves them in shared memory,
// from where a block finishes those of all its products in the order of D. Expects copy.h,
// epilogue.h.
#pragma once

/// The row, or column, of a lane's `i`-th one: runs of `run`, between which other lanes' lie.
KILN_DEVICE int place_of(int lane, int i, int lanes, int run) {
  return (lane + i / run * lanes) * run + i % run;
}

/// What follows alpha and C.
KILN_DEVICE TypeD finished(const Output& out, Real x, int row, int column) {
  x = finish(out, x, row, column);
  return from_real(x, TypeD{});
}
//% if store == shared

/// Leaves a lane's accumulators in shared memory, where a product's rows are adjacent.
KILN_DEVICE void leave_sums(const Acc (&sums)[kThreadM][kThreadN], Acc* to, int lane_m,
                            int lane_n) {
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
    const int row = place_of(lane_m, i, kLanesM, kRunM);
    if (row >= kM) continue;
    _Pragma("unroll") for (int j = 0; j < kThreadN; j += kStoreWidth) {
      const int column = place_of(lane_n, j, kLanesN, kRunN);
      if (column >= kN) continue;
      Some<Acc, kStoreWidth> some;
      _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e) some.x[e] = sums[i][j + e];
      *reinterpret_cast<Some<Acc, kStoreWidth>*>(to + row * kN + column) = some;
    }
  }
}

/// An element from its accumulator.
KILN_DEVICE TypeD finished_sum(const Output& out, Acc sum, int row, int column) {
  Real x = product(Real(sum), out.alpha);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  return finished(out, x, row, column);
}

/// Finishes a group's products, kWidthD neighbours at a time: of one row, or, where D has no room
/// between rows and products, whatever follows it.
KILN_DEVICE void store_group(const KilnGpuArgs& args, i64 group, const Acc* sums, int thread) {
  using Piece = Some<TypeD, kWidthD>;
  const i64 first = group * kProducts;
  const int end = int(min(args.batch - first, i64(kProducts))) * (kM * kN);
  _Pragma("unroll 1") for (int at = thread * kWidthD; at < end; at += kThreads * kWidthD) {
    int team = at / (kM * kN), row = (at - team * (kM * kN)) / kN;
    int column = at - team * (kM * kN) - row * kN;
    Output out = output_of(args, first + team);
    //% if stores_d
    TypeD* const d = out.d + row * out.ldd + column;
    //% end
    Piece piece;
    _Pragma("unroll") for (int e = 0; e < kWidthD; ++e) {
      if (kN % kWidthD == 0 || at + e < end)
        piece.x[e] = finished_sum(out, sums[at + e], row, column);
      if (++column < kN || kN % kWidthD == 0) continue;
      column = 0;
      if (++row < kM) continue;
      row = 0;
      out = output_of(args, first + ++team);
    }
    //% if stores_d
    if (kN % kWidthD == 0 || at + kWidthD <= end) {
      *reinterpret_cast<Piece*>(d) = piece;
    } else {
      _Pragma("unroll") for (int e = 0; e < kWidthD; ++e)
        if (at + e < end) d[e] = piece.x[e];
    }
    //% end
  }
}
//% else

/// Applies alpha and adds beta · C. Whether C is read is asked once.
KILN_DEVICE void scale_sums(Acc (&sums)[kThreadM][kThreadN], const Output& out, int lane_m,
                            int lane_n) {
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j)
      sums[i][j] = product(Real(sums[i][j]), out.alpha);
  if (!out.c) return;
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) {
      const int row = place_of(lane_m, i, kLanesM, kRunM);
      const int column = place_of(lane_n, j, kLanesN, kRunN);
      if (row < kM && column < kN) sums[i][j] += out.beta * to_real(out.c[row * out.ldc + column]);
    }
}

/// Finishes a lane's elements of D.
KILN_DEVICE void store_sums(Acc (&sums)[kThreadM][kThreadN], const Output& out, int lane_m,
                            int lane_n) {
  scale_sums(sums, out, lane_m, lane_n);
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
    const int row = place_of(lane_m, i, kLanesM, kRunM);
    if (row >= kM) continue;
    _Pragma("unroll") for (int j = 0; j < kThreadN; j += kStoreWidth) {
      const int column = place_of(lane_n, j, kLanesN, kRunN);
      if (column >= kN) continue;
      Some<TypeD, kStoreWidth> some;
      _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e)
        some.x[e] = finished(out, sums[i][j + e], row, column + e);
      //% if stores_d
      *reinterpret_cast<Some<TypeD, kStoreWidth>*>(out.d + row * out.ldd + column) = some;
      //% end
    }
  }
}
//% end
