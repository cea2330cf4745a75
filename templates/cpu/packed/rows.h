//% if rows_d
// D in the order of its rows, past the caches. What tiles write is a piece of each of their rows,
// and memory takes 64 bytes of each of 28 rows in turn three to five times slower than the same
// bytes in the order of addresses. So a strip of rows waits in the thread's memory, and while tiles
// compute the next one it is written, whole lines at a time, rows that are adjacent in memory as
// one run. Expects lines.h, share.h, operand.h.
#pragma once

using LineOfD = Vec<Raw<TypeD>, int(kLineElements)>;

/// Runs of adjacent elements that are copied to D.
struct Outgoing {
  const TypeD* from;
  TypeD* to;
  i64 length;      // of a run
  i64 pitch, ldd;  // from one run to the next, where they wait and in D
  i64 runs;        // left, the current one included
  i64 at;          // elements of it that were copied

  /// Copies so many lines, or what there is.
  void write(i64 lines) {
    while (lines > 0 && runs > 0) {
      const i64 whole = smaller(lines, (length - at) / kLineElements);
      // A D that is not aligned to its type has no whole lines; streamed stores would trap there.
      if (whole > 0 && reinterpret_cast<unsigned long long>(to + at) % 64 == 0) {
        for (const i64 end = at + whole * kLineElements; at < end; at += kLineElements)
          __builtin_nontemporal_store(load<LineOfD>(from + at),
                                      reinterpret_cast<LineOfD*>(to + at));
        lines -= whole;
      } else {
        const i64 count = smaller(kLineElements - before_line(to + at), length - at);
        store_first<int(kLineElements)>(reinterpret_cast<Raw<TypeD>*>(to + at),
                                        load<LineOfD>(from + at), int(count));
        at += count;
        --lines;
      }
      if (at < length) continue;
      --runs;
      at = 0;
      from += pitch;
      to += ldd;
    }
  }
  void write_all() { write(i64(1) << 62); }
};

/// A row of so many columns, in whole lines.
KILN_INLINE i64 whole_lines(i64 columns) {
  return (columns + kLineElements - 1) / kLineElements * kLineElements;
}
/// Elements that a strip of kMr rows takes, with the lines that it shares with others.
KILN_INLINE i64 strip_elements(i64 columns) {
  return kMr * whole_lines(columns) + 2 * kLineElements;
}

/// The strip that tiles write and the one before it, which leaves.
struct Strips {
  TypeD* memory;  // of two strips
  TypeD* d;
  i64 ldd, column, width;  // D's, and the block's columns

  Outgoing outgoing{};
  i64 quota = 0;  // lines that leave with each tile
  Strip current{};
  i64 rows = 0;                 // of the current strip
  TypeD* base = nullptr;        // the line in which it begins
  bool second = false;          // of the two in memory
  i64 skip = 0;                 // elements of that line that others write
  const TypeD* rest = nullptr;  // the last line of the strip before, which is not whole

  /// Rows that are adjacent are one run, and share lines.
  bool joined() const { return ldd == width; }

  /// Tiles write rows from `row` on next.
  const Strip& begin(i64 row, i64 count) {
    send(false);
    base = memory + (second ? strip_elements(width) : 0);
    second = !second;
    if (joined()) {
      const i64 before = before_line(d + row * ldd + column);
      if (rest)
        store(base, load<LineOfD>(rest));
      else
        skip = before;
      current = {base + before, width, row, column};
    } else {
      current = {base, whole_lines(width), row, column};
    }
    rows = count;
    return current;
  }
  /// Called for each tile.
  void write_some() { outgoing.write(quota); }
  void end() {
    send(true);
    outgoing.write_all();
  }

  /// What was finished follows what leaves.
  void send(bool last) {
    outgoing.write_all();
    if (rows == 0) return;
    TypeD* const to = d + current.row * ldd + column;
    const i64 tiles = (width + kNr - 1) / kNr;
    if (joined()) {
      const i64 before = before_line(to), filled = before + rows * width;
      const i64 ready = last ? filled : filled / kLineElements * kLineElements;
      rest = base + ready;
      if (ready == 0) return;
      outgoing = {base + skip, to - before + skip, ready - skip, 0, 0, 1, 0};
      quota = ready / kLineElements / tiles + 1;
      skip = 0;
    } else {
      outgoing = {base, to, width, current.pitch, ldd, rows, 0};
      quota = rows * (width / kLineElements + 2) / tiles + 1;
    }
  }
};
//% end
