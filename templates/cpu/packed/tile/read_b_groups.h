// Reads a group of lines of k of B as it lies and puts the elements of each column together.
// Included by tile().
#pragma once

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
