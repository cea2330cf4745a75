// Lines of memory that are read soon, fetched a few at a time while tiles compute: what no hardware
// prefetcher can know, since the next block of an operand begins on other pages.
#pragma once

//% if fetch_a || fetch_b
/// A block of a matrix on its way into L2, row by row.
struct Ahead {
  const char *at, *begin, *end;  // the next line; the row it is of
  i64 pitch, rows;               // rows that are left, this one included
  //% if stacked
  i64 other;  // the pitch after the next: rows of both factors take turns
  //% end
};

KILN_INLINE Ahead piece(const void* first, i64 pitch, i64 row_bytes, i64 rows) {
  const char* begin = static_cast<const char*>(first);
  //% if stacked
  return {begin, begin, begin + row_bytes, pitch, rows, pitch};
  //% else
  return {begin, begin, begin + row_bytes, pitch, rows};
  //% end
}

/// The same few instructions each time: a count that changed would be mispredicted (measured: 12 %
/// at kc = 1024). So lines beyond a row's end may be fetched, and once the block is complete its
/// last row is fetched again, from L2.
template <int Lines>
KILN_INLINE void fetch(Ahead& next) {
  KILN_UNROLL
  for (int line = 0; line < Lines; ++line) __builtin_prefetch(next.at + line * 64, 0, 2);
  next.at += Lines * 64;
  if (__builtin_expect(next.at >= next.end, 0)) {
    const i64 step = next.rows > 1 ? next.pitch : 0;
    next.rows -= 1;
    next.begin += step;
    next.end += step;
    next.at = next.begin;
    //% if stacked
    const i64 other = next.other;
    next.other = next.pitch;
    next.pitch = other;
    //% end
  }
}
//% end
