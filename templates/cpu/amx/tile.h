// The product of tiles: kMt × kNt tile registers of accumulators over a block of k.
// Expects vector.h, epilogue.h, panels.h, amx.h and the parameters.
#pragma once

constexpr int kStep = kTileBytes / int(sizeof(Unit)) * kGroup;  // k of one tile row
constexpr int kHeight = kMt * kTileRows;

//% if swap
// D^T is computed: B's columns are the left operand, A's rows the right one.
using Left = TypeB;
//% else
using Left = TypeA;
//% end

//% if thirds || blocked
// Copies lie tile by tile: rows of a power of two of bytes would share a few sets of the cache.
//% if thirds
constexpr int kParts = 3;
//% else
constexpr int kParts = 1;
//% end
/// The number of a tile row among those of all steps and parts, `height` of each.
KILN_INLINE i64 part_row(i64 step, int part, i64 height, i64 row) {
  return (step * kParts + part) * height + row;
}

//% end
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
  //% if right_t1
  (tile_load_past_l1<kMt * kNt + kMt + I>(panels[I] + offset, kLanes * sizeof(Unit)), ...);
  //% else
  (tile_load<kMt * kNt + kMt + I>(panels[I] + offset, kLanes * sizeof(Unit)), ...);
  //% end
}
template <int... I>
KILN_INLINE void dots(Sequence<int, I...>) {
  (dots_of_row<kNt, I>(Iota<kNt>{}), ...);
}
template <int... I>
KILN_INLINE void zero_sums(Sequence<int, I...>) {
  (tile_zero<I>(), ...);
}
//% if !blocked
template <int... I>
KILN_INLINE void store_sums(Acc (*to)[kNr], Sequence<int, I...>) {
  (tile_store<I>(&to[I / kNt * kTileRows][I % kNt * kLanes], sizeof(to[0])), ...);
}
//% end

/// Panels of the right operand over a block of k, `pitch` units apart.
struct RightPanels {
  const Unit* data;
  i64 pitch;
};

//% if overlap
/// Where a block of accumulators belongs, `height` × `width` of which exist.
struct Place {
  i64 row, column;
  int height, width;
  Pass pass;
};
/// A block whose elements of D are written while the next block is multiplied.
struct Overlap {
  alignas(64) Acc sums[2][kHeight][kNr];  // that block's, and the next one's, in turn
  int turn = 0;
  Place waiting{};
};

/// Of the left operand's rows that exist in the waiting block: those that are finished at once.
//% if swap
constexpr int kFinishRows = kLanes;
//% else
constexpr int kFinishRows = 1;
//% end

/// Finishes rows `from` to `to` of a block.
KILN_INLINE void finish_rows(const Output& out, const Acc (*sums)[kNr], const Place& at, int from,
                             int to) {
  for (int i = from; i < to; i += kFinishRows) {
    //% if swap
    for (int j = 0; j < at.width; j += kLanes) {
      UnitVec block[kLanes];
      KILN_UNROLL
      for (int r = 0; r < kLanes; ++r) block[r] = load<UnitVec>(&sums[i + r][j]);
      transpose<kLanes>(block);
      for (int r = 0; r < kLanes && j + r < at.width; ++r)
        finish<kLanes>(out, bits_of<AccVec>(block[r]), at.row + j + r, at.column + i, at.height - i,
                       at.pass);
    }
    //% else
    //% if stream_rows
    constexpr int kLine = 64 / int(sizeof(TypeD));
    for (int j = 0; j < at.width; j += kLine)
      finish<kLine>(out, load<Vec<Acc, kLine>>(&sums[i][j]), at.row + i, at.column + j,
                    at.width - j, at.pass);
    //% else
    for (int j = 0; j < at.width; j += kLanes)
      finish<kLanes>(out, load<AccVec>(&sums[i][j]), at.row + i, at.column + j, at.width - j,
                     at.pass);
    //% end
    //% end
  }
}
/// The last block's, which no other one follows.
static void finish_last(const Output& out, Overlap& o) {
  finish_rows(out, o.sums[1 - o.turn], o.waiting, 0, o.waiting.height);
  o.waiting = {};
}

//% end
//% if blocked
constexpr int kTileSums = kTileRows * kLanes;

template <int... I>
KILN_INLINE void load_sums(const Acc* from, Sequence<int, I...>) {
  (tile_load<I>(from + I * kTileSums, kTileBytes), ...);
}
template <int... I>
KILN_INLINE void keep_sums(Acc* to, Sequence<int, I...>) {
  (tile_store<I>(to + I * kTileSums, kTileBytes), ...);
}

//% end
//% if blocked
/// One block of kHeight × kNr accumulators over a block of k, `width` columns of which exist. They
/// lie tile by tile in `sums`, and are begun there by the first block of k.
//% else
/// One block of kHeight × kNr accumulators over k; `height` × `width` of them exist.
//% end
__attribute__((noinline)) static void tile(const LeftStrip& left, const RightPanels& right, i64 k,
                                           //% if blocked
                                           Acc* sums,
                                           //% else
                                           //% if overlap
                                           Overlap& o,
                                           //% end
                                           const Output& where, i64 row, i64 column, int height,
                                           //% end
                                           int width, Pass pass) {
  //% if !blocked
  // A copy that stores to D cannot alias.
  const Output out = where;
  //% end
  const Unit* panels[kNt];
  KILN_UNROLL
  for (int j = 0; j < kNt; ++j)  // in place of one that does not exist, the first is read
    panels[j] = right.data + (j * kLanes < width ? j * right.pitch : 0);
  //% if blocked
  if (pass.first)
    zero_sums(Iota<kMt * kNt>{});
  else
    load_sums(sums, Iota<kMt * kNt>{});
  //% else
  zero_sums(Iota<kMt * kNt>{});
  //% end
  //% if overlap
  // Rows of the waiting block that each step finishes: multiplications take longer than the
  // processor looks ahead, so what follows them all would wait.
  const Place waiting = o.waiting;  // a copy that stores to D cannot alias
  const Acc(*const complete)[kNr] = o.sums[1 - o.turn];
  const int steps = k > 0 ? int((k + kStep - 1) / kStep) : 1;
  const int each = int(round_up((waiting.height + steps - 1) / steps, kFinishRows));
  int finished = 0;
  //% end
  for (i64 at = 0; at < k; at += kStep) {
    //% if thirds
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
    //% else
    load_right(panels, at / kGroup * kLanes, Iota<kNt>{});
    //% if blocked
    load_left(
        static_cast<const char*>(left.data) + part_row(at / kStep, 0, kHeight, 0) * kTileBytes,
        kTileBytes, Iota<kMt>{});
    //% else
    load_left(static_cast<const char*>(left.data) + at * i64(sizeof(Left)), left.row_bytes,
              Iota<kMt>{});
    //% end
    dots(Iota<kMt>{});
    //% end
    //% if overlap
    const int to = int(smaller(finished + each, waiting.height));
    finish_rows(out, complete, waiting, finished, to);
    finished = to;
    //% end
  }
  //% if blocked
  keep_sums(sums, Iota<kMt * kNt>{});
  //% end
  //% if overlap
  finish_rows(out, complete, waiting, finished, waiting.height);  // where k is 0
  store_sums(o.sums[o.turn], Iota<kMt * kNt>{});
  o.turn = 1 - o.turn;
  o.waiting = {row, column, height, width, pass};
  //% end
  //% if !blocked && !overlap
  alignas(64) Acc sums[kHeight][kNr];
  store_sums(sums, Iota<kMt * kNt>{});
  //% if swap
  for (int i = 0; i < height; i += kLanes) {
    for (int j = 0; j < width; j += kLanes) {
      UnitVec block[kLanes];
      KILN_UNROLL
      for (int r = 0; r < kLanes; ++r) block[r] = load<UnitVec>(&sums[i + r][j]);
      transpose<kLanes>(block);
      for (int r = 0; r < kLanes && j + r < width; ++r)
        finish<kLanes>(out, bits_of<AccVec>(block[r]), row + j + r, column + i, height - i, pass);
    }
  }
  //% else
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < width; j += kLanes)
      finish<kLanes>(out, load<AccVec>(&sums[i][j]), row + i, column + j, width - j, pass);
  //% end
  //% end
}
