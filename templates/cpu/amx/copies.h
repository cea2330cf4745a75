// Copies of both operands: the left one's rows, k padded, and the right one's panels. With `thirds`
// both are fp32, copied as three parts of bf16.
// Expects pack.h, panels.h, share.h, tile.h and the parameters.
#pragma once

//% if thirds
using FloatVec = Vec<float, kLanes>;

/// The upper halves of fp32's bits, rounded to nearest even; those that would round to infinity,
/// and what is not finite, are cut.
KILN_INLINE UnitVec upper_half(UnitVec x) {
  const UnitVec cut = x & 0xffff0000u;
  const UnitVec near = (x + 0x7fffu + ((x >> 16) & 1u)) & 0xffff0000u;
  return (near & 0x7f800000u) == 0x7f800000u ? cut : near;
}

/// x = parts[0] + parts[1] + parts[2], each of them a bf16 in the upper half of its lane. What is
/// left of an infinity is a NaN.
KILN_INLINE void split(UnitVec (&parts)[kParts], UnitVec x) {
  KILN_UNROLL
  for (int part = 0; part < kParts; ++part) {
    parts[part] = upper_half(x);
    x = bits_of<UnitVec>(bits_of<FloatVec>(x) - bits_of<FloatVec>(parts[part]));
  }
}

/// Of two neighbours along k.
KILN_INLINE void split_pair(UnitVec (&parts)[kParts], UnitVec first, UnitVec second) {
  UnitVec low[kParts], high[kParts];
  split(low, first);
  split(high, second);
  KILN_UNROLL
  for (int part = 0; part < kParts; ++part) parts[part] = (low[part] >> 16) | high[part];
}

template <int... I>
KILN_INLINE UnitVec even_lanes(UnitVec a, UnitVec b, Sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (2 * I)...);
}
template <int... I>
KILN_INLINE UnitVec odd_lanes(UnitVec a, UnitVec b, Sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (2 * I + 1)...);
}

/// A line's elements [at, at + kLanes) of `count`; zero beyond.
KILN_INLINE UnitVec elements(const float* line, i64 at, i64 count) {
  if (at >= count) return UnitVec(0);
  return bits_of<UnitVec>(load_first<kLanes>(line + at, int(smaller(kLanes, count - at))));
}

/// kLanes lines of `lines` that exist, `ld` apart, turned: vector i holds element at + i of each.
KILN_INLINE void load_turned(UnitVec (&block)[kLanes], const float* from, i64 ld, int lines, i64 at,
                             i64 count) {
  KILN_UNROLL
  for (int r = 0; r < kLanes; ++r)
    block[r] = r < lines ? elements(from + r * ld, at, count) : UnitVec(0);
  transpose<kLanes>(block);
}

/// Copies `height` rows of the left operand in parts, both ends padded with zeros to whole tiles.
static void copy_left(char* to, const float* from, i64 ld, int height, i64 k) {
  const auto place = [&](i64 at, int part, int row) {
    return to + part_row(at / kStep, part, kHeight, row) * kTileBytes;
  };
  for (i64 at = 0; at < k; at += kStep) {
    for (int r = 0; r < kHeight; r += kLanes) {
      //% if left_k_major
      // Pairs of neighbours are what a lane holds already: even and odd elements are told apart.
      KILN_UNROLL
      for (int row = r; row < r + kLanes; ++row) {
        const float* line = from + (row < height ? row : 0) * ld;
        const i64 count = row < height ? k : 0;
        const UnitVec some = elements(line, at, count), more = elements(line, at + kLanes, count);
        UnitVec parts[kParts];
        split_pair(parts, even_lanes(some, more, Iota<kLanes>{}),
                   odd_lanes(some, more, Iota<kLanes>{}));
        KILN_UNROLL
        for (int part = 0; part < kParts; ++part) store(place(at, part, row), parts[part]);
      }
      //% else
      UnitVec block[kParts][kLanes];
      KILN_UNROLL
      for (int g = 0; g < kLanes; ++g) {
        const float* line = from + (at + g * kGroup) * ld;
        const i64 left = k - at - g * kGroup;
        UnitVec parts[kParts];
        split_pair(parts, left > 0 ? elements(line, r, height) : UnitVec(0),
                   left > 1 ? elements(line + ld, r, height) : UnitVec(0));
        KILN_UNROLL
        for (int part = 0; part < kParts; ++part) block[part][g] = parts[part];
      }
      KILN_UNROLL
      for (int part = 0; part < kParts; ++part) {
        transpose<kLanes>(block[part]);
        KILN_UNROLL
        for (int g = 0; g < kLanes; ++g) store(place(at, part, r + g), block[part][g]);
      }
      //% end
    }
  }
}
//% else
/// Copies `height` rows of the left operand, both ends padded with zeros to whole tiles.
static void copy_left(char* to, const Left* from, i64 ld, int height, i64 k) {
  //% if blocked
  const auto place = [&](i64 at, int row) {
    return to + part_row(at / kStep, 0, kHeight, row) * kTileBytes;
  };
  //% else
  const i64 row_bytes = round_up(k, kStep) * i64(sizeof(Left));
  //% end
  //% if left_k_major && blocked
  if (0 < k && k <= kStep) {
    for (int r = 0; r < kHeight; ++r)
      store(place(0, r), r < height ? load_units<kLanes>(from + r * ld, k) : UnitVec(Unit(0)));
    return;
  }
  // Rows are often pages apart: each visit reads several lines.
  constexpr int kTogether = 8 * kStep;
  for (i64 some = 0; some < k; some += kTogether)
    for (int r = 0; r < kHeight; ++r)
      for (i64 at = some; at < smaller(some + kTogether, k); at += kStep)
        store(place(at, r),
              r < height ? load_units<kLanes>(from + r * ld + at, k - at) : UnitVec(Unit(0)));
  //% else
  //% if left_k_major && overlap
  for (int r = 0; r < kHeight; ++r)
    for (i64 at = 0; at < k; at += kStep)
      store(to + r * row_bytes + at * i64(sizeof(Left)),
            r < height ? load_units<kLanes>(from + r * ld + at, k - at) : UnitVec(Unit(0)));
  //% end
  //% if left_k_major && !overlap
  for (int r = 0; r < kHeight; ++r) {
    const i64 bytes = r < height ? k * i64(sizeof(Left)) : 0;
    __builtin_memcpy(to + r * row_bytes, from + (r < height ? r : 0) * ld, bytes);
    __builtin_memset(to + r * row_bytes + bytes, 0, row_bytes - bytes);
  }
  //% end
  //% if !left_k_major
  for (i64 at = 0; at < k; at += kStep) {
    for (int r = 0; r < kHeight; r += kLanes) {
      UnitVec block[kLanes];
      KILN_UNROLL
      for (int g = 0; g < kLanes; ++g) {
        const i64 left = k - at - g * kGroup;
        block[g] = UnitVec(0);
        if (left > 0 && r < height)
          block[g] = load_across<kLanes>(from + (at + g * kGroup) * ld + r, ld, left, height - r);
      }
      transpose<kLanes>(block);
      KILN_UNROLL
      //% if blocked
      for (int g = 0; g < kLanes; ++g) store(place(at, r + g), block[g]);
      //% else
      for (int g = 0; g < kLanes; ++g)
        store(to + (r + g) * row_bytes + at * i64(sizeof(Left)), block[g]);
      //% end
    }
  }
  //% end
  //% end
}
//% end

KILN_INLINE const Left* left_at(const KilnArgs& args, i64 row, i64 k) {
  //% if swap
  const auto* from = static_cast<const TypeB*>(args.b);
  const i64 ld = args.ldb;
  //% else
  const auto* from = static_cast<const TypeA*>(args.a);
  const i64 ld = args.lda;
  //% end
  //% if left_k_major
  return from + row * ld + k;
  //% else
  return from + k * ld + row;
  //% end
}

//% if !b_packed
//% if thirds
/// `width` columns in parts. Whole vectors of columns, and whole tiles of k, are written.
__attribute__((noinline)) static void pack_parts(Unit* to, const float* from, i64 ld, i64 width,
                                                 i64 k) {
  const i64 groups = panel_groups(k);
  //% if !right_k_major && blocked
  // Rows are often pages apart: each visit reads all of their columns.
  for (i64 g = 0; g < groups; ++g) {
    Unit* row = to + part_row(g / kTileRows, 0, kTileRows, g % kTileRows) * kLanes;
    const float* line = from + g * kGroup * ld;
    const i64 left = k - g * kGroup;
    for (i64 j = 0; j < width; j += kLanes, row += kParts * panel_units(k)) {
      UnitVec parts[kParts];
      split_pair(parts, left > 0 ? elements(line, j, width) : UnitVec(0),
                 left > 1 ? elements(line + ld, j, width) : UnitVec(0));
      KILN_UNROLL
      for (int part = 0; part < kParts; ++part)
        store(row + part_row(0, part, kTileRows, 0) * kLanes, parts[part]);
    }
  }
  //% else
  for (i64 j = 0; j < width; j += kLanes, to += kParts * panel_units(k)) {
    const auto put = [&](i64 g, UnitVec first, UnitVec second) {
      UnitVec parts[kParts];
      split_pair(parts, first, second);
      KILN_UNROLL
      for (int part = 0; part < kParts; ++part)
        store(to + part_row(g / kTileRows, part, kTileRows, g % kTileRows) * kLanes, parts[part]);
    };
    //% if right_k_major
    static_assert(kPanelStep * kGroup % kLanes == 0, "a panel ends with a whole vector of k");
    for (i64 g = 0; g < groups; g += kLanes / kGroup) {
      UnitVec block[kLanes];
      load_turned(block, from + j * ld, ld, int(smaller(kLanes, width - j)), g * kGroup, k);
      KILN_UNROLL
      for (int i = 0; i < kLanes; i += kGroup) put(g + i / kGroup, block[i], block[i + 1]);
    }
    //% else
    for (i64 g = 0; g < groups; ++g) {
      const float* line = from + g * kGroup * ld;
      const i64 left = k - g * kGroup;
      put(g, left > 0 ? elements(line, j, width) : UnitVec(0),
          left > 1 ? elements(line + ld, j, width) : UnitVec(0));
    }
    //% end
  }
  //% end
}

//% end
/// Packs `width` columns of the right operand.
KILN_INLINE void pack_right(Unit* to, const KilnArgs& args, i64 k0, i64 column, i64 width, i64 k) {
  //% if swap
  const auto* from = static_cast<const TypeA*>(args.a);
  const i64 ld = args.lda;
  //% else
  const auto* from = static_cast<const TypeB*>(args.b);
  const i64 ld = args.ldb;
  //% end
  //% if thirds
  //% if right_k_major
  pack_parts(to, from + column * ld + k0, ld, width, k);
  //% else
  pack_parts(to, from + k0 * ld + column, ld, width, k);
  //% end
  //% else
  //% if right_k_major
  pack_panels_along(to, from + column * ld + k0, ld, width, k);
  //% else
  pack_panels_across(to, from + k0 * ld + column, ld, width, k);
  //% end
  //% end
}
//% end
