// device:  x86-64-v4
// problem: fp32 N N 128 512 512 numerics=tensor
// config:  host_amx isa=amx mt=2 nt=2 kc=512 nc=512 swap=0 copy_left=0 parallel=none thirds=1

// ---- parameters ----
using TypeA = float;              // elements of A
using TypeB = float;              // elements of B
using TypeD = float;              // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of tdpbf16ps
constexpr int kMt = 2;            // tiles of 16 rows in a block of accumulators
constexpr int kNt = 2;            // tiles of 16 columns in it
constexpr int kNv = 2;            // vectors across it
constexpr int kPanelStep = 16;    // rows of a panel of the right operand are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel
constexpr int kRowUnit = 32;      // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 32;   // columns are divided among threads at multiples of this

// ---- cpu/amx/tile.h ----
// The product of tiles: kMt × kNt tile registers of accumulators over a block of k.
// Expects vector.h, epilogue.h, panels.h, amx.h and the parameters.

constexpr int kStep = kTileBytes / int(sizeof(Unit)) * kGroup;  // k of one tile row
constexpr int kHeight = kMt * kTileRows;

using Left = TypeA;

// Copies lie tile by tile: rows of a power of two of bytes would share a few sets of the cache.
constexpr int kParts = 3;
/// The number of a tile row among those of all steps and parts, `height` of each.
KILN_INLINE i64 part_row(i64 step, int part, i64 height, i64 row) {
  return (step * kParts + part) * height + row;
}

/// Rows of the left operand over a block of k: `row_bytes` apart, k contiguous.
struct LeftStrip {
  const void* data;
  i64 row_bytes;
};

template <int N, int Row, int... I>
KILN_INLINE void dots_of_row(Sequence<int, I...>) {
  (tile_dot<Row * N + I, kMt * kNt + Row, kMt * kNt + kMt + I>(), ...);
}
template <int... I>
KILN_INLINE void load_left(const char* at, i64 row_bytes, Sequence<int, I...>) {
  (tile_load<kMt * kNt + I>(at + I * kTileRows * row_bytes, row_bytes), ...);
}
template <int... I>
KILN_INLINE void load_right(const Unit* const (&panels)[kNt], i64 offset, Sequence<int, I...>) {
  (tile_load<kMt * kNt + kMt + I>(panels[I] + offset, kLanes * sizeof(Unit)), ...);
}
template <int... I>
KILN_INLINE void dots(Sequence<int, I...>) {
  (dots_of_row<kNt, I>(Iota<kNt>{}), ...);
}
template <int... I>
KILN_INLINE void zero_sums(Sequence<int, I...>) {
  (tile_zero<I>(), ...);
}
template <int... I>
KILN_INLINE void store_sums(Acc (*to)[kNr], Sequence<int, I...>) {
  (tile_store<I>(&to[I / kNt * kTileRows][I % kNt * kLanes], sizeof(to[0])), ...);
}

/// Panels of the right operand over a block of k, `pitch` units apart.
struct RightPanels {
  const Unit* data;
  i64 pitch;
};

/// One block of kHeight × kNr accumulators over k; `height` × `width` of them exist.
__attribute__((noinline)) static void tile(const LeftStrip& left, const RightPanels& right, i64 k,
                                           const Output& where, i64 row, i64 column, int height,
                                           int width, Pass pass) {
  // A copy that stores to D cannot alias.
  const Output out = where;
  const Unit* panels[kNt];
  KILN_UNROLL
  for (int j = 0; j < kNt; ++j)  // in place of one that does not exist, the first is read
    panels[j] = right.data + (j * kLanes < width ? j * right.pitch : 0);
  zero_sums(Iota<kMt * kNt>{});
  for (i64 at = 0; at < k; at += kStep) {
    // The six products of parts above the last bit, each part loaded as seldom as the tiles allow.
    const i64 step = at / kStep;
    const auto left_part = [&](int part) {
      load_left(static_cast<const char*>(left.data) + part_row(step, part, kHeight, 0) * kTileBytes,
                kTileBytes, Iota<kMt>{});
    };
    const auto right_part = [&](int part) {
      load_right(panels, part_row(step, part, kTileRows, 0) * kLanes, Iota<kNt>{});
    };
    const auto multiply_parts = [] { dots(Iota<kMt>{}); };
    right_part(1), left_part(1), multiply_parts();
    left_part(0), multiply_parts();
    right_part(2), multiply_parts();
    right_part(0), left_part(2), multiply_parts();
    left_part(1), multiply_parts();
    left_part(0), multiply_parts();
  }
  alignas(64) Acc sums[kHeight][kNr];
  store_sums(sums, Iota<kMt * kNt>{});
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < width; j += kLanes)
      finish<kLanes>(out, load<AccVec>(&sums[i][j]), row + i, column + j, width - j, pass);
}

// ---- cpu/amx/copies.h ----
// Copies of both operands: the left one's rows, k padded, and the right one's panels. With `thirds`
// both are fp32, copied as three parts of bf16.
// Expects pack.h, panels.h, share.h, tile.h and the parameters.

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
    }
  }
}

KILN_INLINE const Left* left_at(const KilnArgs& args, i64 row, i64 k) {
  const auto* from = static_cast<const TypeA*>(args.a);
  const i64 ld = args.lda;
  return from + row * ld + k;
}

/// `width` columns in parts. Whole vectors of columns, and whole tiles of k, are written.
__attribute__((noinline)) static void pack_parts(Unit* to, const float* from, i64 ld, i64 width,
                                                 i64 k) {
  const i64 groups = panel_groups(k);
  for (i64 j = 0; j < width; j += kLanes, to += kParts * panel_units(k)) {
    const auto put = [&](i64 g, UnitVec first, UnitVec second) {
      UnitVec parts[kParts];
      split_pair(parts, first, second);
      KILN_UNROLL
      for (int part = 0; part < kParts; ++part)
        store(to + part_row(g / kTileRows, part, kTileRows, g % kTileRows) * kLanes, parts[part]);
    };
    for (i64 g = 0; g < groups; ++g) {
      const float* line = from + g * kGroup * ld;
      const i64 left = k - g * kGroup;
      put(g, left > 0 ? elements(line, j, width) : UnitVec(0),
          left > 1 ? elements(line + ld, j, width) : UnitVec(0));
    }
  }
}

/// Packs `width` columns of the right operand.
KILN_INLINE void pack_right(Unit* to, const KilnArgs& args, i64 k0, i64 column, i64 width, i64 k) {
  const auto* from = static_cast<const TypeB*>(args.b);
  const i64 ld = args.ldb;
  pack_parts(to, from + k0 * ld + column, ld, width, k);
}
