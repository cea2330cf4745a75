// How values that lie in a line become one. Every chain of additions has one order, so that the
// same call gives the same bits. Expects epilogue.h and functions.h.
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
//% end
