// What follows a product, over C, which holds it: each thread goes along rows of its own. Expects
// epilogue.h, share.h. A contender of `kiln bench`; no kernel of a product has it.

extern "C" long long kiln_workspace_bytes(const KilnArgs*, int) { return 0; }

KILN_INLINE void finish_row(const Output& out, i64 row, i64 columns) {
  const AccVec none = AccVec(Acc(0));
  i64 column = 0;
  for (; column + kLanes <= columns; column += kLanes)
    finish<kLanes>(out, none, row, column, kLanes, {true, true});
  if (column < columns) finish<kLanes>(out, none, row, column, int(columns - column), {true, true});
}

extern "C" void kiln_gemm(const KilnArgs* call, int thread, int threads) {
  const Range rows = share(call->batch * call->m, 1, thread, threads);
  for (i64 any = rows.begin; any < rows.end; ++any) {
    const i64 batch = any / call->m, row = any % call->m;
    finish_row(output_of(*call, batch), row, call->n);
    //% if row_by_row
    // While its values are in the nearest cache.
    const Reducing args{*call, batch, row};
    //% include expression/reductions_of_rows
    //% end
    //% if row_by_row && behind
    store_row_behind(behind_of(*call, batch), row, call->n);
    //% end
  }
}
