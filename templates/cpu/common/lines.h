//% if stream_d
// D in whole lines past the caches, wherever its rows begin: a store that fills a line spares
// reading it first, and where nothing reads D soon it need not evict what is read again. Finished
// elements wait in the thread's memory, as far from a line's begin as in D. Expects vector.h, and
// from the parameters: TypeD.
//% end
//% if rows_d
// Where finished rows of D wait until they are written, one after the other. Expects vector.h, and
// from the parameters: TypeD.
//% end
//% if stream_d || rows_d
#pragma once

constexpr i64 kLineElements = 64 / i64(sizeof(TypeD));
//% end
//% if stream_d

/// Elements that wait for the rest of their lines: some rows of D, `pitch` elements each.
struct Lines {
  TypeD* waiting;   // 64-byte aligned
  i64 pitch;        // whole lines, one more than a tile's columns and what precedes them fill
  i64 row, column;  // of D, which the first of them are
  i64 begin, end;   // columns that are written one after the other

  /// Elements between a line's begin and `d`.
  static i64 before(const TypeD* d) {
    return i64(reinterpret_cast<unsigned long long>(d) % 64 / sizeof(TypeD));
  }
  /// Where element (row, column) waits; `d` is the place of (row, this->column) in D.
  TypeD* at(const TypeD* d, i64 at_row, i64 at_column) const {
    return waiting + (at_row - row) * pitch + before(d) + (at_column - column);
  }
};

/// Elements of a row of `lines` for `columns` columns at a time.
constexpr i64 line_pitch(i64 columns) { return (columns / kLineElements + 3) * kLineElements; }

/// Writes what waits of `rows` rows and `columns` columns: whole lines, and the ends of what is
/// written in one go. The rest of a row's last line waits for the next columns.
template <typename Where>
KILN_INLINE void write_lines(const Where& out, int rows, i64 columns) {
  using Line = Vec<Raw<TypeD>, int(kLineElements)>;
  const Lines& lines = out.lines;
#pragma clang loop unroll(disable)
  for (int i = 0; i < rows; ++i) {
    TypeD* d = out.d + (lines.row + i) * out.ldd + lines.column;
    const i64 before = Lines::before(d), filled = before + columns;
    auto* const to = reinterpret_cast<Raw<TypeD>*>(d - before);
    auto* const from = reinterpret_cast<Raw<TypeD>*>(lines.waiting + i * lines.pitch);
    // A D that is not aligned to its type has no whole lines; streamed stores would trap there.
    const bool streams = reinterpret_cast<unsigned long long>(to) % 64 == 0;
    // Elements of the first line that belong to other columns.
    i64 others = before - (lines.column - lines.begin);
    i64 at = 0;
    for (; at + kLineElements <= filled; at += kLineElements) {
      if (at == 0 && others > 0)
        store_first<int(kLineElements)>(to + others, load<Line>(from + others),
                                        int(kLineElements - others));
      else if (streams)
        __builtin_nontemporal_store(load<Line>(from + at), reinterpret_cast<Line*>(to + at));
      else
        store(to + at, load<Line>(from + at));
    }
    if (at == filled) continue;
    if (lines.column + columns == lines.end) {
      if (at > 0 || others < 0) others = 0;
      store_first<int(kLineElements)>(to + at + others, load<Line>(from + at + others),
                                      int(filled - at - others));
    } else if (at > 0) {
      store(from, load<Line>(from + at));
    }
  }
}
//% end
//% if rows_d

/// Elements between a line's begin and `d`.
KILN_INLINE i64 before_line(const TypeD* d) {
  return i64(reinterpret_cast<unsigned long long>(d) % 64 / sizeof(TypeD));
}

/// Where a strip of rows of D waits.
struct Strip {
  TypeD* first;  // element (row, column)
  i64 pitch;     // to the next row
  i64 row, column;

  TypeD* at(i64 at_row, i64 at_column) const {
    return first + (at_row - row) * pitch + (at_column - column);
  }
};
//% end
