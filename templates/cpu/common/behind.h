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

/// Elements of one row from `column` on.
template <int L>
KILN_INLINE void store_behind(const Behind& out, i64 row, i64 column, int columns) {
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
  i64 column = 0;
  for (; column + L <= columns; column += L) store_behind<L>(out, row, column, L);
  if (column < columns) store_behind<L>(out, row, column, int(columns - column));
}
