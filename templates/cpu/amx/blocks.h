// With `mc`: blocks of mc rows of the left operand and nc columns of the right one. Their
// accumulators stay in L2 over all of k, tile by tile, and a block of k of both operands' copies
// beside them; a strip of kHeight rows over that k stays in L1. Every copy is made once.
// Expects tile.h, copies.h, memory.h.
#pragma once

//% if blocked
//% if flat_rows
/// Whether all columns of D are these few and its rows follow each other without gaps, as C's do:
/// they are then one row, of which fewer vectors end early.
KILN_INLINE bool lies_flat(const Output& out, i64 width) {
  //% if epilogue == call
  if (out.bias_kind) return false;
  //% end
  return width == out.ldd && width <= kLanes / 2 && (!out.c || out.ldc == out.ldd);
}
/// Finishes rows of such a D, as many at once as make whole vectors of any width.
template <typename At>
KILN_INLINE void finish_flat(const Output& out, const At& at, i64 i0, i64 height, int width,
                             Pass pass) {
  Acc flat[kLanes * kLanes];
  for (i64 i = 0; i < height; i += kLanes) {
    const int rows = int(smaller(kLanes, height - i)), count = rows * width;
    for (int r = 0; r < rows; ++r)  // the next row takes the place of what stands behind this one
      store(flat + r * width, load<AccVec>(at(i + r, 0)));
    for (int j = 0; j < count; j += kLanes)
      finish<kLanes>(out, load<AccVec>(flat + j), i0 + i, j, count - j, pass);
  }
}

//% end
/// Finishes the accumulators of a block: those of `height` rows of the left operand from i0 on and
/// `width` columns of the right one from j0 on.
static void finish_block(const Acc* sums, const Output& where, i64 i0, i64 j0, i64 height,
                         i64 width, Pass pass) {
  //% if stream_d
  Output out = where;  // a copy that stores to D cannot alias
  out.lines.column = out.lines.begin = j0;
  out.lines.end = j0 + width;
  //% else
  const Output out = where;  // a copy that stores to D cannot alias
  //% end
  const i64 across = (width + kNr - 1) / kNr;
  const auto at = [&](i64 i, i64 j) {
    const i64 block = i / kHeight * across + j / kNr;
    const i64 tile = block * kMt * kNt + i % kHeight / kTileRows * kNt + j % kNr / kLanes;
    return sums + tile * kTileSums + i % kTileRows * kLanes;
  };
  //% if swap
  for (i64 j = 0; j < width; j += kLanes) {
    for (i64 i = 0; i < height; i += kTileRows) {
      UnitVec block[kLanes];
      KILN_UNROLL
      for (int r = 0; r < kLanes; ++r) block[r] = load<UnitVec>(at(i + r, j));
      transpose<kLanes>(block);
      for (int r = 0; r < kLanes && j + r < width; ++r)
        finish<kLanes>(out, bits_of<AccVec>(block[r]), j0 + j + r, i0 + i, int(height - i), pass);
    }
  }
  //% else
  //% if stream_d
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
  //% else
  //% if flat_rows
  if (lies_flat(out, width)) return finish_flat(out, at, i0, height, int(width), pass);
  //% end
  for (i64 i = 0; i < height; ++i)
    for (i64 j = 0; j < width; j += kLanes)
      finish<kLanes>(out, load<AccVec>(at(i, j)), i0 + i, j0 + j, int(width - j), pass);
  //% end
  //% end
}

static void multiply(const KilnArgs& args, const Memory& memory, const Output& out, Range rows,
                     Range columns, Range ks) {
  //% if swap
  const Range lefts = columns, rights = rows;
  const i64 left_ld = args.ldb;
  //% else
  const Range lefts = rows, rights = columns;
  const i64 left_ld = args.lda;
  //% end
  //% if split_k
  const Pass pass{true, false};  // reduce() finishes
  //% else
  const Pass pass{true, true};
  //% end
  const i64 mc = args.division.mc, nc = args.division.nc, kc = args.division.kc;
  const bool keep = keeps_left(args);
  for (i64 j0 = rights.begin; j0 < rights.end; j0 += nc) {
    const i64 width = smaller(nc, rights.end - j0);
    for (i64 i0 = lefts.begin; i0 < lefts.end; i0 += mc) {
      const i64 height = smaller(mc, lefts.end - i0);
      for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
        const i64 k = smaller(kc, ks.end - k0);
        //% if !b_packed
        Unit* panels =
            memory.right + (keeps_right(args) ? kParts * panels_units(width, k0 - ks.begin) : 0);
        if (i0 == lefts.begin) pack_right(panels, args, k0, j0, width, k);
        //% end
        for (i64 i = i0; i < i0 + height; i += kHeight) {
          const i64 strip = (keep ? i - lefts.begin : i - i0) / kHeight;
          char* left = memory.left + strip * strip_bytes(keep ? ks.end - ks.begin : k) +
                       (keep ? strip_bytes(k0 - ks.begin) : 0);
          if (!keep || j0 == rights.begin)
            copy_left(left, left_at(args, i, k0), left_ld, int(smaller(kHeight, i0 + height - i)),
                      k);
          for (i64 j = 0; j < width; j += kNr) {
            //% if b_packed
            const RightPanels right{static_cast<const Unit*>(args.b) +
                                        panels_units(j0 + j, args.k) + k0 / kGroup * kLanes,
                                    panel_units(args.k)};
            //% else
            const RightPanels right{panels + kParts * panels_units(j, k), kParts * panel_units(k)};
            //% end
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
//% end
