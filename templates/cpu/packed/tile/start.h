// What accumulators begin with. Included by tile().
#pragma once

KILN_UNROLL
for (int j = 0; j < N; ++j) {
  //% if column_sums
  // A's bytes were shifted by 128 to be unsigned; the column sums undo it.
  AccVec start = AccVec(0);
  if (in.sums) {
    //% if stacked
    start = load<AccVec>(FactorRows<N>(in.sums, in.apart, in.b_pitch).of(j)) * -128;
    //% else
    const int panel = kRagged && j == N - 1 ? (columns - 1) / kLanes : j;  // as PanelRows
    start = load<AccVec>(reinterpret_cast<const char*>(in.sums) + panel * in.b_pitch) * -128;
    //% end
  }
  //% else
  AccVec start = AccVec(Acc(0));
  //% end
  KILN_UNROLL
  for (int i = 0; i < M; ++i) acc[i][j] = start;
}
//% if swap
const auto width = [&](int j) { return kMasked ? columns - j * kLanes : kLanes; };
if (!pass.first) {
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    if (kRagged && i >= rows) continue;
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      //% if column_sums
      acc[i][j] += load_first<kLanes>(waiting(out, row, column, i, j), width(j));
    //% else
    acc[i][j] = load_first<kLanes>(waiting(out, row, column, i, j), width(j));
    //% end
  }
}
//% end
