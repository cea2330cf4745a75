// Prefetches the lines of B that are read kPrefetch groups of k later. Included by tile().
#pragma once

KILN_UNROLL
for (int j = 0; j < N; ++j) {
  //% if stacked
  __builtin_prefetch(in.b + (g + kPrefetch) * kGroup * in.ldb + column_of(j));
  //% else
  __builtin_prefetch(in.b + (g + kPrefetch) * kGroup * in.ldb + j * kLanes);
  //% end
}
