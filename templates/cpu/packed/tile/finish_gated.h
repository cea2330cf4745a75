// Finishes and stores a tile whose vectors are of both factors of a gate. Included by tile().
#pragma once

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
