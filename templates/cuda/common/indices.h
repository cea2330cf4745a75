//% if indexed
// Rows of A and D by index. Expects abi.h, types.h.
#pragma once

/// What a list says of a row of the product, of `rows` that there are. What it may not say becomes
/// the nearest that it may.
KILN_DEVICE int listed_row(const void* list, i64 row, i64 rows) {
  return max(0, min(int(rows) - 1, static_cast<const int*>(list)[row]));
}
//% if gather
/// The row of A.
KILN_DEVICE int row_of_a(const KilnGpuArgs& args, i64 row) {
  return listed_row(args.index_a, row, args.rows_of_a);
}
//% end
//% end
