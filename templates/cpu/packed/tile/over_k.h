// The loop over k, between whose steps what comes next is fetched. Included by tile().
#pragma once

const i64 whole = k / kGroup;
i64 g = 0;
//% if fetch_d || fetch_a || fetch_b
// Fetches are spread over the steps: all at once they would hold every fill buffer while the
// first steps wait for B (measured for D alone: 12 % at n = 1024, kc = 384).
//% if fetch_a || fetch_b
const i64 fetches = whole / kStepsPerFetch;
//% else
const i64 fetches = kRagged ? 0 : smaller(M, whole / kStepsPerFetch);  // D's rows
//% end
for (i64 i = 0; i < fetches; ++i) {
  //% if fetch_a
  fetch<kFetchA>(in.next->a);
  //% end
  //% if fetch_b
  fetch<kFetchB>(in.next->b);
  //% end
  //% if fetch_d && gate && stores_d
  KILN_UNROLL
  for (int j = 0; j < N / 2; ++j)
    if (!kRagged && i < M) __builtin_prefetch(out.d + (row + i) * out.ldd + column + j * kLanes, 1);
  //% end
  //% if fetch_d && !gate && stores_d
  KILN_UNROLL
  for (int j = 0; j < N; ++j)
    if (!kRagged && i < M) __builtin_prefetch(out.d + (row + i) * out.ldd + column + j * kLanes, 1);
  //% end
  //% if fetch_d && expressed
  KILN_UNROLL
  //% if gate
  for (int j = 0; j < N / 2; ++j)
    //% else
    for (int j = 0; j < N; ++j)
      //% end
      if (!kRagged && i < M && pass.last) {
        const i64 to = row + i, first = column + j * kLanes;
        //% include expression/fetches
      }
      //% end
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
  for (int s = 0; s < kStepsPerFetch; ++s) step(g++, kGroup);
}
#pragma clang loop unroll(disable) vectorize(disable)
//% else
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
//% end
for (; g < whole; ++g) step(g, kGroup);
//% if dotted
if (k % kGroup) step(whole, k % kGroup);
//% end
