// Reduction across the lanes of a vector. Expects vector.h.
#pragma once

template <int L>
KILN_INLINE Acc add_lanes(Vec<Acc, L> v) {
  if constexpr (L == 2) {
    return v[0] + v[1];
  } else {
    using HalfVec = Vec<Acc, L / 2>;
    HalfVec halves[2];
    __builtin_memcpy(halves, &v, sizeof v);
    return add_lanes<L / 2>(halves[0] + halves[1]);
  }
}

constexpr int lanes_for(int columns) {
  int lanes = 2;
  while (lanes < columns) lanes *= 2;
  return lanes;
}
