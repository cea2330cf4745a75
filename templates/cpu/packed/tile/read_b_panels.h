// Reads packed panels of B and goes on to the next group of k. Included by tile().
#pragma once

KILN_UNROLL
for (int j = 0; j < N; ++j) {
  b[j] = load<UnitVec>(right.of(j));
}
//% if prefetch
KILN_UNROLL
for (int j = 0; j < N; ++j) {
  __builtin_prefetch(right.of(j) + kPrefetch * sizeof(UnitVec));
}
//% end
right.advance();
