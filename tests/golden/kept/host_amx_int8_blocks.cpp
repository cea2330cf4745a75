// device:  x86-64-v4
// problem: int8 N N 1024 1024 1024
// config:  host_amx isa=amx mt=2 nt=2 kc=512 nc=512 swap=0 copy_left=0 parallel=none mc=256 stream_d=1

// ---- parameters ----
using TypeA = i8;                 // elements of A
using TypeB = i8;                 // elements of B
using TypeD = i32;                // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of tdpbssd
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
constexpr int kParts = 1;
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

/// Panels of the right operand over a block of k, `pitch` units apart.
struct RightPanels {
  const Unit* data;
  i64 pitch;
};

constexpr int kTileSums = kTileRows * kLanes;

template <int... I>
KILN_INLINE void load_sums(const Acc* from, Sequence<int, I...>) {
  (tile_load<I>(from + I * kTileSums, kTileBytes), ...);
}
template <int... I>
KILN_INLINE void keep_sums(Acc* to, Sequence<int, I...>) {
  (tile_store<I>(to + I * kTileSums, kTileBytes), ...);
}

/// One block of kHeight × kNr accumulators over a block of k, `width` columns of which exist. They
/// lie tile by tile in `sums`, and are begun there by the first block of k.
__attribute__((noinline)) static void tile(const LeftStrip& left, const RightPanels& right, i64 k,
                                           Acc* sums,
                                           int width, Pass pass) {
  const Unit* panels[kNt];
  KILN_UNROLL
  for (int j = 0; j < kNt; ++j)  // in place of one that does not exist, the first is read
    panels[j] = right.data + (j * kLanes < width ? j * right.pitch : 0);
  if (pass.first)
    zero_sums(Iota<kMt * kNt>{});
  else
    load_sums(sums, Iota<kMt * kNt>{});
  for (i64 at = 0; at < k; at += kStep) {
    load_right(panels, at / kGroup * kLanes, Iota<kNt>{});
    load_left(
        static_cast<const char*>(left.data) + part_row(at / kStep, 0, kHeight, 0) * kTileBytes,
        kTileBytes, Iota<kMt>{});
    dots(Iota<kMt>{});
  }
  keep_sums(sums, Iota<kMt * kNt>{});
}

// ---- cpu/amx/copies.h ----
// Copies of both operands: the left one's rows, k padded, and the right one's panels. With `thirds`
// both are fp32, copied as three parts of bf16.
// Expects pack.h, panels.h, share.h, tile.h and the parameters.

/// Copies `height` rows of the left operand, both ends padded with zeros to whole tiles.
static void copy_left(char* to, const Left* from, i64 ld, int height, i64 k) {
  const auto place = [&](i64 at, int row) {
    return to + part_row(at / kStep, 0, kHeight, row) * kTileBytes;
  };
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
}

KILN_INLINE const Left* left_at(const KilnArgs& args, i64 row, i64 k) {
  const auto* from = static_cast<const TypeA*>(args.a);
  const i64 ld = args.lda;
  return from + row * ld + k;
}

/// Packs `width` columns of the right operand.
KILN_INLINE void pack_right(Unit* to, const KilnArgs& args, i64 k0, i64 column, i64 width, i64 k) {
  const auto* from = static_cast<const TypeB*>(args.b);
  const i64 ld = args.ldb;
  pack_panels_across(to, from + k0 * ld + column, ld, width, k);
}

// ---- cpu/amx/memory.h ----
// What a thread keeps in the workspace: copies of operands, and accumulators.
// Expects abi.h, share.h, panels.h, tile.h and the parameters.

struct Memory {
  char* left;
  Unit* right;
  Acc* partial;
  Acc* sums;
  TypeD* lines;
};
constexpr i64 kLine = 64;
KILN_INLINE i64 right_columns(const KilnArgs& args) {
  return args.n;
}
KILN_INLINE i64 left_rows(const KilnArgs& args) {
  return args.m;
}
/// Whether the left operand's copy is read by several blocks of columns, so that all of it is kept.
KILN_INLINE bool keeps_left(const KilnArgs& args) { return right_columns(args) > args.division.nc; }
/// Of the left operand's copy, a strip of kHeight rows over k.
KILN_INLINE i64 strip_bytes(i64 k) {
  return part_row((k + kStep - 1) / kStep, 0, kHeight, 0) * kTileBytes;
}
KILN_INLINE i64 bytes_of_left(const KilnArgs& args) {
  const i64 all = left_rows(args);
  const i64 rows = keeps_left(args) ? all : smaller(args.division.mc, all);
  const i64 k = keeps_left(args) ? args.k : smaller(args.division.kc, args.k);
  return round_up(rows, kHeight) / kHeight * strip_bytes(k);
}
/// Whether several blocks of rows read the panels, so that those over all of k are kept, block
/// after block of k.
KILN_INLINE bool keeps_right(const KilnArgs& args) { return left_rows(args) > args.division.mc; }
KILN_INLINE i64 bytes_of_right(const KilnArgs& args) {
  const i64 k = keeps_right(args) ? args.k : smaller(args.division.kc, args.k);
  return kParts * panels_units(smaller(args.division.nc, right_columns(args)), k) *
         i64(sizeof(Unit));
}
/// Accumulators of a block of rows and columns.
KILN_INLINE i64 bytes_of_sums(const KilnArgs& args) {
  return round_up(smaller(args.division.mc, left_rows(args)), kHeight) *
         round_up(smaller(args.division.nc, right_columns(args)), kNr) * i64(sizeof(Acc));
}
KILN_INLINE i64 bytes_of_partial(const KilnArgs& args) {
  return 0;
}
/// Rows of a block of D that wait together. A line is loaded whole; right after the narrower stores
/// that made it, that load would wait until they have left the store buffer.
constexpr i64 kRowsOfLines = 4;
KILN_INLINE i64 pitch_of_lines(const KilnArgs& args) {
  return line_pitch(smaller(args.division.nc, right_columns(args)));
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return bytes_of_left(args) + bytes_of_right(args) + bytes_of_sums(args) +
         kRowsOfLines * pitch_of_lines(args) * i64(sizeof(TypeD));
}
KILN_INLINE Memory thread_memory(const KilnArgs& args, int thread) {
  char* base = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  char* sums = base + bytes_of_left(args) + bytes_of_right(args);
  return {base, reinterpret_cast<Unit*>(base + bytes_of_left(args)), nullptr,
          reinterpret_cast<Acc*>(sums), reinterpret_cast<TypeD*>(sums + bytes_of_sums(args))};
}

// ---- cpu/amx/blocks.h ----
// With `mc`: blocks of mc rows of the left operand and nc columns of the right one. Their
// accumulators stay in L2 over all of k, tile by tile, and a block of k of both operands' copies
// beside them; a strip of kHeight rows over that k stays in L1. Every copy is made once.
// Expects tile.h, copies.h, memory.h.

/// Finishes the accumulators of a block: those of `height` rows of the left operand from i0 on and
/// `width` columns of the right one from j0 on.
static void finish_block(const Acc* sums, const Output& where, i64 i0, i64 j0, i64 height,
                         i64 width, Pass pass) {
  Output out = where;  // a copy that stores to D cannot alias
  out.lines.column = out.lines.begin = j0;
  out.lines.end = j0 + width;
  const i64 across = (width + kNr - 1) / kNr;
  const auto at = [&](i64 i, i64 j) {
    const i64 block = i / kHeight * across + j / kNr;
    const i64 tile = block * kMt * kNt + i % kHeight / kTileRows * kNt + j % kNr / kLanes;
    return sums + tile * kTileSums + i % kTileRows * kLanes;
  };
  // Lines in which others have elements are read first; stores are made in order and would wait.
  for (i64 i = 0; i < height; ++i) {
    const TypeD* row = out.d + (i0 + i) * out.ldd + j0;
    __builtin_prefetch(row, 1, 3);
    __builtin_prefetch(row + width - 1, 1, 3);
  }
  for (i64 some = 0; some < height; some += kRowsOfLines) {
    const i64 end = smaller(some + kRowsOfLines, height);
    out.lines.row = i0 + some;
    for (i64 i = some; i < end; ++i)
      for (i64 j = 0; j < width; j += kLanes)
        finish<kLanes>(out, load<AccVec>(at(i, j)), i0 + i, j0 + j, int(width - j), pass);
    write_lines(out, int(end - some), width);
  }
}

static void multiply(const KilnArgs& args, const Memory& memory, const Output& out, Range rows,
                     Range columns, Range ks) {
  const Range lefts = rows, rights = columns;
  const i64 left_ld = args.lda;
  const Pass pass{true, true};
  const i64 mc = args.division.mc, nc = args.division.nc, kc = args.division.kc;
  const bool keep = keeps_left(args);
  for (i64 j0 = rights.begin; j0 < rights.end; j0 += nc) {
    const i64 width = smaller(nc, rights.end - j0);
    for (i64 i0 = lefts.begin; i0 < lefts.end; i0 += mc) {
      const i64 height = smaller(mc, lefts.end - i0);
      for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
        const i64 k = smaller(kc, ks.end - k0);
        Unit* panels =
            memory.right + (keeps_right(args) ? kParts * panels_units(width, k0 - ks.begin) : 0);
        if (i0 == lefts.begin) pack_right(panels, args, k0, j0, width, k);
        for (i64 i = i0; i < i0 + height; i += kHeight) {
          const i64 strip = (keep ? i - lefts.begin : i - i0) / kHeight;
          char* left = memory.left + strip * strip_bytes(keep ? ks.end - ks.begin : k) +
                       (keep ? strip_bytes(k0 - ks.begin) : 0);
          if (!keep || j0 == rights.begin)
            copy_left(left, left_at(args, i, k0), left_ld, int(smaller(kHeight, i0 + height - i)),
                      k);
          for (i64 j = 0; j < width; j += kNr) {
            const RightPanels right{panels + kParts * panels_units(j, k), kParts * panel_units(k)};
            const i64 block = (i - i0) / kHeight * ((width + kNr - 1) / kNr) + j / kNr;
            tile({left, kTileBytes}, right, k, memory.sums + block * kMt * kNt * kTileSums,
                 int(smaller(kNr, width - j)), {k0 == ks.begin, false});
          }
        }
      }
      finish_block(memory.sums, out, i0, j0, height, width, pass);
    }
  }
}
