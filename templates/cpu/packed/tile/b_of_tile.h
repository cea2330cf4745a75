// Where the columns of a tile are in B. Included by tile().
#pragma once

//% if packed_b && stacked
FactorRows<N> right(in.b, in.apart, in.b_pitch);
//% end
//% if packed_b && !stacked
PanelRows<N, kRagged> right(in.b, in.b_pitch, columns);
//% end
//% if !packed_b && !dotted && !stacked
Vec<bool, kLanes> live[N];
KILN_UNROLL
for (int j = 0; j < N; ++j)
  live[j] = first_lanes<kLanes>(kMasked ? columns - j * kLanes : kLanes, Iota<kLanes>{});
//% end
//% if !packed_b && !dotted && stacked
Vec<bool, kLanes> live[N];
KILN_UNROLL
for (int j = 0; j < N; ++j)
  live[j] = first_lanes<kLanes>(kMasked ? columns - j % (N / 2) * kLanes : kLanes, Iota<kLanes>{});
//% end
//% if !packed_b && stacked
const auto column_of = [&](int j) { return j % (N / 2) * kLanes + j / (N / 2) * in.apart; };
//% end
