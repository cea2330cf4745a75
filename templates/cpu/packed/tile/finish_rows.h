// Finishes and stores a tile row by row. Included by tile().
#pragma once

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
