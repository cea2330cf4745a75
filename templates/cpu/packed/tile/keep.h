// Leaves the accumulators for the next block of k. Included by tile().
#pragma once

KILN_UNROLL
for (int i = 0; i < M; ++i) {
  if (kRagged && i >= rows) continue;
  KILN_UNROLL
  for (int j = 0; j < N; ++j)
    store_first<kLanes>(waiting(out, row, column, i, j), acc[i][j], width(j));
}
