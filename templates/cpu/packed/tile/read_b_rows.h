// Reads a line of k of B as it lies. Included by tile().
#pragma once

KILN_UNROLL
for (int j = 0; j < N; ++j) {
  //% if stacked
  const TypeB* from = in.b + g * in.ldb + column_of(j);
  //% else
  const TypeB* from = in.b + g * in.ldb + j * kLanes;
  //% end
  if constexpr (kMasked)
    b[j] = units_along<kLanes, TypeB>(__builtin_masked_load(
        live[j], reinterpret_cast<const Raw<TypeB>*>(from), Vec<Raw<TypeB>, kLanes>(0)));
  else
    b[j] = load_units<kLanes>(from);
}
