// Panels of B: one vector of columns over k, a row of units for each kGroup of k, zeros where k
// ends early, anything where columns do, and behind them the sums of the columns where kColumnSums
// says so. They are packed here, a block of k at a time, or lie over all of k in a B that was
// packed once for every m (generator/families/cpu/common/packed_layout.h). Expects pack.h, share.h,
// kNv, kPanelStep, kColumnSums.
#pragma once

//% if gate
constexpr int kNr = kNv / 2 * kLanes;  // columns of D: a tile holds both factors of its elements
//% else
constexpr int kNr = kNv * kLanes;
//% end
/// Rows of units in a panel: a multiple of kPanelStep.
KILN_INLINE i64 panel_groups(i64 k) { return round_up((k + kGroup - 1) / kGroup, kPanelStep); }
//% if b_packed
/// Units from one panel to the next, a row of column sums included. A tile reads several side by
/// side. Whole pages apart, or nearly, they would contend for the same parts of memory and caches,
/// so large ones have a quarter of a page between them.
KILN_INLINE i64 panel_units(i64 k) {
  constexpr i64 kPageRows = 4096 / i64(kLanes * sizeof(Unit));
  const i64 rows = panel_groups(k) + kColumnSums;
  const bool whole = rows >= 16 * kPageRows && (rows + kPageRows / 16) % kPageRows <= kPageRows / 8;
  return (rows + (whole ? kPageRows * 17 / 64 : 0)) * kLanes;
}
//% else
/// Units that a panel takes, a row of column sums included.
KILN_INLINE i64 panel_units(i64 k) { return (panel_groups(k) + kColumnSums) * kLanes; }
//% end
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

//% if dotted
/// The elements of both vectors in turns.
template <typename V, int... I>
KILN_INLINE auto zip(V a, V b, Sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (I / 2 + I % 2 * int(sizeof...(I) / 2))...);
}

/// kGroup rows of kGroup * kLanes columns as kGroup vectors of units side by side; `rows` and
/// `columns` of them exist. A fourth of the instructions of load_across, a unit.
template <typename T>
KILN_INLINE void load_panels(UnitVec (&units)[kGroup], const T* from, i64 ld, i64 rows,
                             int columns) {
  constexpr int kColumns = kGroup * kLanes;
  Vec<Raw<T>, kColumns> row[kGroup];
  KILN_UNROLL
  for (int g = 0; g < kGroup; ++g)
    row[g] = g < rows
                 ? load_first<kColumns>(reinterpret_cast<const Raw<T>*>(from) + g * ld, columns)
                 : Vec<Raw<T>, kColumns>(Raw<T>(0));
  //% if kind == bf16
  const auto all = zip(row[0], row[1], Iota<2 * kColumns>{});
  //% end
  //% if kind == s16
  using Wide = Vec<i16, kColumns>;
  const auto all = zip(__builtin_convertvector(row[0], Wide), __builtin_convertvector(row[1], Wide),
                       Iota<2 * kColumns>{});
  //% end
  //% if kind == vnni
  using Pairs = Vec<u16, kColumns>;
  const auto all =
      zip(bits_of<Pairs>(zip(row[0], row[1], Iota<2 * kColumns>{})),
          bits_of<Pairs>(zip(row[2], row[3], Iota<2 * kColumns>{})), Iota<2 * kColumns>{});
  //% end
  __builtin_memcpy(units, &all, sizeof units);
}
//% end

/// The same from a source whose columns lie side by side.
template <typename T>
__attribute__((noinline)) static void pack_panels_across(Unit* to, const T* from, i64 ld, i64 width,
                                                         i64 k) {
  //% if dotted
  // Rows of the source are often pages apart: each visit reads several lines where there are as
  // many columns.
  //% if long_runs
  constexpr int kColumns = kGroup * kLanes, kTogether = 1024 / (kColumns * int(sizeof(T)));
  //% end
  //% if blocked && !long_runs
  constexpr int kColumns = kGroup * kLanes, kTogether = 256 / kColumns;
  //% end
  //% if !blocked && !long_runs
  constexpr int kColumns = kGroup * kLanes, kTogether = kColumns < 64 ? 64 / kColumns : 1;
  //% end
  const i64 pitch = panel_units(k), groups = (k + kGroup - 1) / kGroup;
  //% if long_runs
  // Rows that are fetched lie some 4 KiB ahead, or a group ahead where a run is 1 KiB
  // (4×358×8016 int8, one, two, three and four groups ahead: 363, 283, 248, 238 us).
  const i64 run = smaller(width, kTogether * kColumns) * i64(sizeof(T));
  const i64 ahead = run < 1024 ? 1 + 4096 / (kGroup * run) : 1;
  //% end
  Unit* panels = to;
  for (i64 j0 = 0; j0 < width; j0 += kTogether * kColumns, panels += kTogether * kGroup * pitch) {
    for (i64 g = 0; g < groups; ++g) {
      //% if long_runs
#pragma clang loop unroll(disable)
      //% else
      KILN_UNROLL
      //% end
      for (int t = 0; t < kTogether; ++t) {
        const i64 j = j0 + t * kColumns;
        if (j >= width) break;
        //% if long_runs
        KILN_UNROLL
        for (int row = 0; row < kGroup; ++row)  // the next rows: prefetchers do not follow them
          __builtin_prefetch(from + ((g + ahead) * kGroup + row) * ld + j, 0, 2);
        //% end
        UnitVec units[kGroup];
        load_panels(units, from + g * kGroup * ld + j, ld, k - g * kGroup,
                    int(smaller(width - j, kColumns)));
        KILN_UNROLL
        for (int s = 0; s < kGroup; ++s)
          if (j + s * kLanes < width)
            store(panels + (t * kGroup + s) * pitch + g * kLanes, units[s]);
      }
    }
  }
  //% else
  pack_across<kLanes, 0>(to, from, ld, width, k, panel_units(k));
  //% end
  end_panels(to, width, k);
}
//% end
