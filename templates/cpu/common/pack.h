// Packing: a strip of W rows or columns becomes [k / kGroup][W] units, in the order a tile reads
// them. Expects vector.h and share.h.
#pragma once

/// Smallest power of two of at least W lanes, no wider than a vector.
template <int W>
constexpr int block_lanes() {
  int lanes = 2;
  while (lanes < W && lanes < kLanes) lanes *= 2;
  return lanes;
}

/// A block narrower than its vector is stored whole, in ascending k: what spills over is
/// overwritten by the next row, so a packed buffer ends with kLanes spare units.
template <int W, int P>
KILN_INLINE void store_block(Unit* to, Vec<Unit, P> units, int column) {
  if constexpr (W <= P || W % P == 0)
    store(to + column, units);
  else
    store_first<P>(to + column, units, W - column);
}

/// From a source whose k lies contiguous: `from[j * ld + k]`, j < width ≤ W.
template <int W, u32 Flip, typename T>
__attribute__((noinline)) static void pack_along(Unit* to, const T* from, i64 ld, int width,
                                                 i64 k) {
  constexpr int P = block_lanes<W>();
  const i64 groups = (k + kGroup - 1) / kGroup;
  for (i64 g = 0; g < groups; g += P) {
    const T* at = from + g * kGroup;
    const i64 left = k - g * kGroup;
    //% if masks
    const auto live = first_lanes<P * kGroup>(int(smaller(left, P * kGroup)), Iota<P * kGroup>{});
    //% end
    for (int j = 0; j < W; j += P) {
      Vec<Unit, P> rows[P];
      // Rows that do not exist repeat the last one: what is made of them is dropped.
      const auto row = [&](int r) { return at + smaller(j + r, width - 1) * ld; };
      //% if masks
      KILN_UNROLL
      for (int r = 0; r < P; ++r)
        rows[r] = units_along<P, T>(__builtin_masked_load(
            live, reinterpret_cast<const Raw<T>*>(row(r)), Vec<Raw<T>, P * kGroup>(Raw<T>(0))));
      //% else
      if (left >= P * kGroup) {
        KILN_UNROLL
        for (int r = 0; r < P; ++r) rows[r] = load_units<P>(row(r));
      } else {
        Vec<Unit, P> edge[P];  // a copy: indexed at run time, rows would not stay in registers
#pragma clang loop unroll(disable)
        for (int r = 0; r < P; ++r) edge[r] = load_units<P>(row(r), left);
        KILN_UNROLL
        for (int r = 0; r < P; ++r) rows[r] = edge[r];
      }
      //% end
      transpose<P>(rows);
      KILN_UNROLL
      for (int r = 0; r < P; ++r) {
        if (g + r >= groups) break;
        if constexpr (Flip != 0) rows[r] ^= Flip;
        store_block<W, P>(to + (g + r) * W, rows[r], j);
      }
    }
  }
}

/// From a source whose panel dimension lies contiguous: `from[k * ld + j]`, j < width. Several
/// strips of W, `pitch` units apart, are filled side by side: rows of the source are often pages
/// apart, and each visit should find more than one strip's share there.
template <int W, u32 Flip, typename T>
__attribute__((noinline)) static void pack_across(Unit* to, const T* from, i64 ld, i64 width, i64 k,
                                                  i64 pitch) {
  constexpr int P = block_lanes<W>();
  //% if long_runs
  constexpr int kTogether = 1024 / (W * int(sizeof(T)));  // prefetchers need some lines to begin
  //% else
  constexpr int kTogether = W < 32 ? 64 / W : 1;
  //% end
  const i64 groups = (k + kGroup - 1) / kGroup;
  for (i64 j0 = 0; j0 < width; j0 += kTogether * W, to += kTogether * pitch) {
    const i64 rest = width - j0;
    for (i64 g = 0; g < groups; ++g) {
      const T* row = from + g * kGroup * ld + j0;
      //% if long_runs
#pragma clang loop unroll(disable)
      //% else
      KILN_UNROLL
      //% end
      for (int s = 0; s < kTogether; ++s) {
        if (s * W >= rest) break;
        Unit* at = to + s * pitch + g * W;
        KILN_UNROLL
        for (int j = 0; j < W; j += P) {
          const int left = int(rest) - s * W - j;
          Vec<Unit, P> units = load_across<P>(row + s * W + j, ld, k - g * kGroup, left);
          if constexpr (Flip != 0) units ^= Flip;
          // The next strip begins behind the last row and may hold something already.
          if (W % P != 0 && g + 1 == groups)
            store_first<P>(at + j, units, W - j);
          else
            store_block<W, P>(at, units, j);
        }
      }
    }
  }
}
