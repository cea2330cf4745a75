//% if matrix
// Matrix instructions: a warp, or several along m, has a product. A lane's elements of D are those
// that it has of multiply-adds, with runs of one row and of two columns. Expects mma.h,
// ampere_ptx.h, copy.h.
#pragma once

constexpr int kTilesM = kThreadM / 2, kTilesN = kThreadN / 2;  // of 16 rows, of 8 columns
constexpr int kPairsN = (kTilesN + 1) / 2;                     // of tiles of columns

/// The first of `count` rows, or columns, from `row` on: earlier where the product has fewer.
template <int Rows>
KILN_DEVICE int within(int row, int count) {
  return min(row, Rows - count);
}

//% if double
template <typename T, bool AlongK, int Rows, int Pitch>
KILN_DEVICE T element(const T* product, int row, int k) {
  const int own = within<Rows>(row, 1);
  return product[AlongK ? own * Pitch + k : k * Pitch + own];
}
/// Those of one step of k.
KILN_DEVICE void read_fragments(Fragment (&left)[kTilesM][4], Fragment (&right)[2 * kPairsN][2],
                                const TypeA* a, const TypeB* b, int k, int lane_m, int lane_n) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int part = 0; part < 4; ++part)
      left[i][part] = element<TypeA, kAlongKA, kM, kPitchA>(
          a, lane_m + (2 * i + part % 2) * kLanesM, k + lane_n + part / 2 * 4);
  _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
    _Pragma("unroll") for (int part = 0; part < 2; ++part)
      right[j][part] =
          element<TypeB, kAlongKB, kN, kPitchB>(b, j * 8 + lane_m % 8, k + lane_n + part * 4);
}
//% else
/// Four 8 × 8 matrices, each of 8 rows from the one on that this lane's `row` is of, and of 8 steps
/// of k from `k` on. `line` is the lane's line of its matrix.
template <typename T, bool AlongK, int Rows, int Pitch>
KILN_DEVICE void read_matrices(u32 (&to)[4], const T* product, int row, int k, int line) {
  if constexpr (AlongK) {
    ldmatrix_x4(to, shared_address(product + within<Rows>(row + line, 1) * Pitch + k));
  } else {
    ldmatrix_x4_trans(to, shared_address(product + (k + line) * Pitch + within<Rows>(row, 8)));
  }
}
/// Those of one step of k.
KILN_DEVICE void read_fragments(Fragment (&left)[kTilesM][4], Fragment (&right)[2 * kPairsN][2],
                                const TypeA* a, const TypeB* b, int k, int lane_m, int lane_n) {
  const int lane = lane_m % 8 * 4 + lane_n, number = lane / 8, line = lane % 8;
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    read_matrices<TypeA, kAlongKA, kM, kPitchA>(
        left[i], a, lane_m / 8 * 8 + (2 * i + number % 2) * kLanesM, k + number / 2 * 8, line);
  _Pragma("unroll") for (int j = 0; j < kPairsN; ++j) {
    u32 both[4];
    read_matrices<TypeB, kAlongKB, kN, kPitchB>(both, b, (2 * j + number / 2) * 8,
                                                k + number % 2 * 8, line);
    _Pragma("unroll") for (int part = 0; part < 4; ++part)
      right[2 * j + part / 2][part % 2] = both[part];
  }
}
//% end

KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], const TypeA* a, const TypeB* b,
                              int lane_m, int lane_n) {
  Acc tiles[kTilesM][kTilesN][4] = {};
  _Pragma("unroll kUnroll") for (int k = 0; k < kK; k += kDepth) {
    Fragment left[kTilesM][4], right[2 * kPairsN][2];
    read_fragments(left, right, a, b, k, lane_m, lane_n);
    _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
      _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
        multiply_step(tiles[i][j], left[i], right[j]);
  }
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j)
      sums[i][j] = tiles[i / 2][j / 2][i % 2 * 2 + j % 2];
}
//% end
