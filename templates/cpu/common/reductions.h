// What an expression stores of rows, of columns and of all elements of D, from the values that
// kiln_gemm left. Threads have lines, and every chain of additions has one order, so that the same
// call gives the same bits with any number of threads. Expects reduced.h and behind.h.
#pragma once

//% if reduces
/// A thread's part of a call.
struct Reducing {
  const KilnArgs& call;
  i64 batch, line;
  Real* values(int i) const {
    return static_cast<Real*>(call.outputs[i]) + batch * call.output_stride[i];
  }
  template <typename T>
  void store(int i, i64 at, Real x) const {
    T* const to = static_cast<T*>(call.reduced[i]) + batch * call.reduced_stride[i] + at;
    store_real<2>(to, Vec<Real, 2>(x), 1);
  }
};

template <typename R, typename T>
KILN_INLINE void reduce_rows(const Reducing& in, int i) {
  const AlongLine row{in.values(i) + in.line * in.call.output_ld[i], in.call.n};
  in.store<T>(i, in.line, Reduced<R>::of(row));
}
/// A row into its first value.
template <typename R, typename T>
KILN_INLINE void reduce_all(const Reducing& in, int i) {
  Real* const values = in.values(i) + in.line * in.call.output_ld[i];
  *values = Reduced<R>::of(AlongLine{values, in.call.n});
}
/// What is made of rows becomes what is made of all.
template <typename R, typename T>
static void reduce_rest(const Reducing& in, int i) {
  Real* const values = in.values(i);
  for (i64 row = 1; row < in.call.m; ++row) values[row] = values[row * in.call.output_ld[i]];
  in.store<T>(i, 0, Reduced<R>::of(AlongLine{values, in.call.m}));
}
//% if reduces_columns
/// A vector of columns.
template <typename R, typename T>
KILN_INLINE void reduce_columns(const Reducing& in, int i) {
  const i64 column = in.line * kReducedLanes, ld = in.call.output_ld[i];
  const i64 left = in.call.n - column;
  const int columns = left < kReducedLanes ? int(left) : kReducedLanes;
  const Real* const values = in.values(i) + column;
  const auto load = [&](i64 row) __attribute__((always_inline)) {
    return load_real<kReducedLanes>(values + row * ld, columns);
  };
  const ReducedVec all = ReducedLanes<R>::of(in.call.m, load);
  T* const to = static_cast<T*>(in.call.reduced[i]) + in.batch * in.call.reduced_stride[i];
  store_real<kReducedLanes>(to + column, all, columns);
}
//% end

/// Threads have rows, then vectors of columns. Where all is reduced of rows, what is made of that
/// follows row by row.
extern "C" void kiln_reduce(const KilnArgs* call, int thread, int threads) {
  //% if reduces_rows
  const i64 rows = call->batch * call->m;
  for (i64 any = rows * thread / threads; any < rows * (thread + 1) / threads; ++any) {
    const Reducing args{*call, any / call->m, any % call->m};
    //% include expression/reductions_of_rows
    //% if behind && !reduces_columns && !reduces_all
    store_row_behind(behind_of(*call, args.batch), args.line, call->n);
    //% end
  }
  //% end
  //% if reduces_columns
  const i64 across = (call->n + kReducedLanes - 1) / kReducedLanes, columns = call->batch * across;
  for (i64 any = columns * thread / threads; any < columns * (thread + 1) / threads; ++any) {
    const Reducing args{*call, any / across, any % across};
    //% include expression/reductions_of_columns
  }
  //% end
}
//% end
//% if reduces_all

extern "C" void kiln_reduce_rest(const KilnArgs* call, int thread, int threads) {
  for (i64 batch = call->batch * thread / threads; batch < call->batch * (thread + 1) / threads;
       ++batch) {
    const Reducing args{*call, batch, 0};
    //% include expression/rest_of_rows
  }
}
//% end
//% if behind && reduces_columns || behind && reduces_all || behind && !reduces

/// Threads have rows.
extern "C" void kiln_behind(const KilnArgs* call, int thread, int threads) {
  //% if behind_rows
  const i64 rows = call->m;
  //% else
  const i64 rows = 1;
  //% end
  const i64 all = call->batch * rows;
  for (i64 any = all * thread / threads; any < all * (thread + 1) / threads; ++any)
    store_row_behind(behind_of(*call, any / rows), any % rows, call->n);
}
//% end
