// Panels of B: one vector of columns over k, a row of units for each kGroup of k, zeros where k ends
// early, anything where columns do, and behind them the sums of the columns where kColumnSums says
// so. They are packed here, a block of k at a time, or lie over all of k in a B that was packed once
// for every m (generator/families/cpu/common/packed_layout.h). Expects pack.h, share.h, kNv,
// kPanelStep, kColumnSums.
#pragma once

constexpr int kNr = kNv * kLanes;
/// Rows of units in a panel: a multiple of kPanelStep.
KILN_INLINE i64 panel_groups(i64 k) { return round_up((k + kGroup - 1) / kGroup, kPanelStep); }
/// Units that a panel takes, a row of column sums included.
KILN_INLINE i64 panel_units(i64 k) { return (panel_groups(k) + kColumnSums) * kLanes; }
/// Units that the panels of so many columns take.
KILN_INLINE i64 panels_units(i64 columns, i64 k) {
  return (columns + kLanes - 1) / kLanes * panel_units(k);
}

//% if !b_packed
/// What follows the units of k in the panels of `width` columns: zeros and column sums.
static void end_panels(Unit* to, i64 width, i64 k) {
  const i64 rows = (k + kGroup - 1) / kGroup, groups = panel_groups(k);
  for (i64 j = 0; j < width; j += kLanes, to += panel_units(k)) {
    for (i64 g = rows; g < groups; ++g) store(to + g * kLanes, UnitVec(Unit(0)));
    //% if column_sums
    AccVec sums = AccVec(0);
    for (i64 g = 0; g < groups; ++g)
      sums = dot(sums, UnitVec(0x01010101u), load<UnitVec>(to + g * kLanes));
    store(to + groups * kLanes, sums);
    //% end
  }
}

/// Packs `width` columns over k from a source that is k-major.
template <typename T>
__attribute__((noinline)) static void pack_panels_along(Unit* to, const T* from, i64 ld, i64 width,
                                                        i64 k) {
  for (i64 j = 0; j < width; j += kLanes)
    pack_along<kLanes, 0>(to + panels_units(j, k), from + j * ld, ld,
                          int(smaller(kLanes, width - j)), k);
  end_panels(to, width, k);
}

/// The same from a source whose columns lie side by side.
template <typename T>
__attribute__((noinline)) static void pack_panels_across(Unit* to, const T* from, i64 ld, i64 width,
                                                         i64 k) {
  pack_across<kLanes, 0>(to, from, ld, width, k, panel_units(k));
  end_panels(to, width, k);
}
//% end
