// What an expression stores that is made of what it reduces: behind the reductions. Expects
// epilogue.h and functions.h.
#pragma once

/// Pointers of one batch.
struct Behind {
  TypeD* d;
  i64 ldd;
  //% include expression/behind_members
};
KILN_INLINE Behind behind_of(const KilnArgs& args, i64 batch) {
  Behind out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.ldd = args.ldd;
  //% include expression/behind_pointers
  return out;
}

//% if behind_blocks
constexpr int kMostOfBlocks = 128;  // which blocks of all sizes divide

/// What is reduced of blocks, of neighbours from a column on that kMostOfBlocks divides.
struct Blocks {
  //% include expression/block_fields
};

/// Values of elements from `column` on, which are number `at` of these.
template <int L>
KILN_INLINE void keep_for_blocks(const Behind& out, i64 row, i64 column, int columns, int at,
                                 Blocks& blocks) {
  using Value = Vec<Real, L>;
  //% include expression/block_loads
  //% include expression/block_values
}

struct Even {};
struct Odd {};
/// Neighbours, kSize to a block, all of which get what becomes of the block.
template <typename R, int kSize>
struct BlocksOf {
  KILN_INLINE void reduce(Real* values, int count) {
    for (int first = 0; first < count; first += kSize) {
      const int here = count - first < kSize ? count - first : kSize;
      const Real all = Reduced<R>::of(AlongLine{values + first, here});
      for (int i = 0; i < here; ++i) values[first + i] = all;
    }
  }
};
template <>
struct BlocksOf<Even, 2> {
  KILN_INLINE void reduce(Real* values, int count) {
    for (int i = 0; i + 1 < count; i += 2) values[i + 1] = values[i];
  }
};
template <>
struct BlocksOf<Odd, 2> {
  KILN_INLINE void reduce(Real* values, int count) {
    for (int i = 0; i + 1 < count; i += 2) values[i] = values[i + 1];
  }
};
KILN_INLINE void reduce_all_blocks(Blocks& blocks, int columns) {
  //% include expression/blocks_reduced
}
//% end

/// Elements of one row from `column` on.
template <int L>
KILN_INLINE void store_behind(const Behind& out, i64 row, i64 column,
                              //% if behind_blocks
                              int at, const Blocks& blocks,
                              //% end
                              int columns) {
  using Value = Vec<Real, L>;
  Value v = Real(0);
  //% include expression/behind_loads
  //% include expression/behind_values
  //% if behind_d
  store_real<L>(out.d + row * out.ldd + column, v, columns);
  //% end
}

KILN_INLINE void store_row_behind(const Behind& out, i64 row, i64 n) {
  constexpr int L = kVectorBytes / int(sizeof(Real));
  //% if behind_columns
  const i64 columns = n;
  //% else
  const i64 columns = 1;
  //% end
  //% if behind_blocks
  for (i64 first = 0; first < columns; first += kMostOfBlocks) {
    const int count = columns - first < kMostOfBlocks ? int(columns - first) : kMostOfBlocks;
    Blocks blocks;
    int at = 0;
    for (; at + L <= count; at += L) keep_for_blocks<L>(out, row, first + at, L, at, blocks);
    if (at < count) keep_for_blocks<L>(out, row, first + at, count - at, at, blocks);
    reduce_all_blocks(blocks, count);
    for (at = 0; at + L <= count; at += L) store_behind<L>(out, row, first + at, at, blocks, L);
    if (at < count) store_behind<L>(out, row, first + at, at, blocks, count - at);
  }
  //% else
  i64 column = 0;
  for (; column + L <= columns; column += L) store_behind<L>(out, row, column, L);
  if (column < columns) store_behind<L>(out, row, column, int(columns - column));
  //% end
}
