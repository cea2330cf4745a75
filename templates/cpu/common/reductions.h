// What an expression stores of rows, of columns and of all elements of D, from the values that
// kiln_gemm left. Threads have lines, and every chain of additions has one order, so that the same
// call gives the same bits with any number of threads. Expects epilogue.h and functions.h.
#pragma once

constexpr int kReducedLanes = kVectorBytes / int(sizeof(Real));
constexpr int kReducedChains = 8;  // of vectors, beside one another
using ReducedVec = Vec<Real, kReducedLanes>;

KILN_INLINE Real infinity() { return Real(__builtin_inf()); }

struct Sum {
  KILN_INLINE Real of_none() { return Real(0); }
  template <typename V>
  KILN_INLINE V of_two(V x, V y) {
    return x + y;
  }
  /// What is combined of a value; `absent` stands for a lane that has none.
  KILN_INLINE ReducedVec term(ReducedVec x, Real) { return x; }
  KILN_INLINE Real absent() { return Real(0); }
};
struct Largest : Sum {
  KILN_INLINE Real of_none() { return -infinity(); }
  template <typename V>
  KILN_INLINE V of_two(V x, V y) {
    return x > y ? x : (x == x ? y : x);
  }
  KILN_INLINE Real absent() { return -infinity(); }
};
struct Smallest : Sum {
  KILN_INLINE Real of_none() { return infinity(); }
  template <typename V>
  KILN_INLINE V of_two(V x, V y) {
    return x < y ? x : (x == x ? y : x);
  }
  KILN_INLINE Real absent() { return infinity(); }
};
//% if reduces_exponentials
/// Of e^x as shares of the largest one's.
struct Exponentials : Sum {
  KILN_INLINE ReducedVec term(ReducedVec x, Real largest) {
    return exponential<kReducedLanes>(x - largest);
  }
  KILN_INLINE Real absent() { return -infinity(); }
};
struct LogSumExp {};
//% end

/// The first `count` lanes, and `absent` in the others.
template <typename R>
KILN_INLINE ReducedVec present(ReducedVec x, int count) {
  const ReducedVec lane = counted<kReducedLanes>(0, Iota<kReducedLanes>{});
  return lane < Real(count) ? x : ReducedVec(R::absent());
}

/// What becomes of vectors that `load(i)` gives, i from 0 below `count`: each kReducedChains-th of
/// them is of one chain.
template <typename R, typename Load>
KILN_INLINE ReducedVec chained(i64 count, Real largest, Load&& load) {
  ReducedVec chain[kReducedChains];
  for (ReducedVec& each : chain) each = ReducedVec(R::of_none());
  i64 i = 0;
  for (; i + kReducedChains <= count; i += kReducedChains)
    for (int c = 0; c < kReducedChains; ++c)
      chain[c] = R::of_two(chain[c], R::term(load(i + c), largest));
  for (int c = 0; i + c < count; ++c) chain[c] = R::of_two(chain[c], R::term(load(i + c), largest));
  ReducedVec all = chain[0];
  for (int c = 1; c < kReducedChains; ++c) all = R::of_two(all, chain[c]);
  return all;
}

/// Neighbours: one line.
struct AlongLine {
  const Real* values;
  i64 count;
  template <typename R>
  __attribute__((always_inline)) Real of(Real largest) const {
    const i64 whole = count / kReducedLanes;
    const int left = int(count % kReducedLanes);
    ReducedVec lanes = chained<R>(
        whole, largest, [&](i64 i) __attribute__((always_inline)) {
          return load_real<kReducedLanes>(values + i * kReducedLanes, kReducedLanes);
        });
    if (left > 0) {
      const ReducedVec last = load_real<kReducedLanes>(values + whole * kReducedLanes, left);
      lanes = R::of_two(lanes, R::term(present<R>(last, left), largest));
    }
    Real all = R::of_none();
    for (int l = 0; l < kReducedLanes; ++l) all = R::of_two(all, Real(lanes[l]));
    return all;
  }
};

template <typename R>
struct Reduced {
  KILN_INLINE Real of(const AlongLine& line) { return line.of<R>(Real(0)); }
};
//% if reduces_exponentials
template <>
struct Reduced<LogSumExp> {
  KILN_INLINE Real of(const AlongLine& line) {
    const Real largest = line.of<Largest>(Real(0));
    const bool finite = largest - largest == Real(0);
    const Real sum = line.of<Exponentials>(finite ? largest : Real(0));
    return finite ? largest + Real(__builtin_log(double(sum))) : largest;
  }
};
//% end

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
/// The lanes' own lines, of which `load(i)` gives an element each.
template <typename R>
struct ReducedLanes {
  template <typename Load>
  KILN_INLINE ReducedVec of(i64 count, Load&& load) {
    return chained<R>(count, Real(0), load);
  }
};
//% if reduces_exponentials
template <>
struct ReducedLanes<LogSumExp> {
  template <typename Load>
  KILN_INLINE ReducedVec of(i64 count, Load&& load) {
    const ReducedVec largest = chained<Largest>(count, Real(0), load);
    const ReducedVec base = largest - largest == Real(0) ? largest : ReducedVec(Real(0));
    ReducedVec all = chained<Exponentials>(
        count, Real(0), [&](i64 i) __attribute__((always_inline)) { return load(i) - base; });
    for (int l = 0; l < kReducedLanes; ++l)
      all[l] = largest[l] - largest[l] == Real(0) ? largest[l] + Real(__builtin_log(double(all[l])))
                                                  : largest[l];
    return all;
  }
};
//% end
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
//% if reduces_all

extern "C" void kiln_reduce_rest(const KilnArgs* call, int thread, int threads) {
  for (i64 batch = call->batch * thread / threads; batch < call->batch * (thread + 1) / threads;
       ++batch) {
    const Reducing args{*call, batch, 0};
    //% include expression/rest_of_rows
  }
}
//% end
//% if behind && reduces_columns || behind && reduces_all

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
