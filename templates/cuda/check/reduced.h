// What a right kernel may make of many elements: their sum, the largest, the smallest, the
// logarithm of the sum of e^x. On a GPU and, by tuner/verify/interval.h, on the CPU: plain C++
// without headers. Expects intervals.h.
#pragma once

enum ExpressionReduction {
  reduce_none,
  reduce_sum,
  reduce_max,
  reduce_min,
  reduce_logsumexp,
  reduce_even,  // the one or the other of two neighbours: nothing is made of them
  reduce_odd
};

/// Of the elements that were taken in.
struct ReducedElements {
  int how;           // an ExpressionReduction
  double value;      // the sum; the largest, or the smallest
  double lost;       // what roundings took from the sum
  double total;      // logsumexp: of e^(x - value)
  double size;       // the sum of magnitudes; logsumexp: the largest one
  double error;      // the sum of what elements may be off; logsumexp: the most
  double low, high;  // max, min: the same of both bounds
  double count;
  bool nan, unsure, whole;  // one is NaN; of one anything is right; all are exact integers
};

KILN_DEVICE ReducedElements no_elements(int how, const Precision& p) {
  const double none = how == reduce_min ? p.infinity : how == reduce_sum ? 0 : -p.infinity;
  return {how, none, 0, 0, 0, 0, none, none, 0, false, false, true};
}

/// The largest of two, or the smallest.
KILN_DEVICE double taken_of(int how, double x, double y) {
  return how == reduce_min ? smaller(x, y) : larger(x, y);
}

KILN_DEVICE ReducedElements merged(const ReducedElements& x, const ReducedElements& y,
                                   const Precision& p) {
  ReducedElements z = x;
  z.count += y.count;
  z.nan = x.nan || y.nan, z.unsure = x.unsure || y.unsure, z.whole = x.whole && y.whole;
  if (x.how == reduce_sum) {
    // Equal terms drift one way when they are added in the precision that is judged.
    z.value = x.value + y.value;
    const double of_y = z.value - x.value;
    z.lost = x.lost + y.lost + ((x.value - (z.value - of_y)) + (y.value - of_y));
    z.size += y.size, z.error += y.error;
    return z;
  }
  z.value = taken_of(x.how, x.value, y.value);
  z.low = taken_of(x.how, x.low, y.low);
  z.high = taken_of(x.how, x.high, y.high);
  z.size = larger(x.size, y.size);
  z.error = larger(x.error, y.error);
  if (x.how == reduce_logsumexp && is_finite(z.value, p))
    z.total = x.total * (x.value == z.value ? 1 : exp(x.value - z.value)) +
              y.total * (y.value == z.value ? 1 : exp(y.value - z.value));
  return z;
}

/// One element more: `value`, which may be off by `error`. NaN is one; an infinite error says that
/// anything is right.
KILN_DEVICE void take_in(ReducedElements& all, double value, double error, const Precision& p) {
  ReducedElements one = no_elements(all.how, p);
  one.count = 1;
  if (!is_finite(error, p)) {
    one.unsure = true;
    one.value = value;
    one.total = 1;
  } else if (value != value) {
    one.nan = true;
  } else {
    one.value = value;
    one.total = 1;
    one.size = is_finite(value, p) ? fabs(value) : 0;
    one.error = error;
    one.low = error == 0 ? value : value - error;
    one.high = error == 0 ? value : value + error;
    one.whole = error == 0 && value == rint(value);
  }
  all = merged(all, one, p);
}

/// An expected value, and how far a right kernel's may be from it: as of an element. NaN is one;
/// an infinite error says that anything is right.
struct ExpectedReduction {
  double value, error;
};

KILN_DEVICE ExpectedReduction expected_in(const Interval& x, const Precision& p) {
  const bool exact = x.low == x.high;
  if (is_empty(x)) return {p.infinity - p.infinity, 0};
  if (x.nan || (!exact && is_infinite(x, p))) return {0, p.infinity};
  if (exact) return {x.low, 0};
  return {(x.low + x.high) / 2, (x.high - x.low) / 2};
}

/// The other way. What may be beyond the largest number may be infinite, or of infinities NaN.
KILN_DEVICE Interval interval_of(const ExpectedReduction& x, const Precision& p) {
  if (!is_finite(x.error, p)) return anything(p);
  if (x.error > 0 && fabs(x.value) + x.error > p.largest) return anything(p);
  return within(x.value, x.error, p);
}

/// What they become without errors.
KILN_DEVICE double center_of(const ReducedElements& all, const Precision& p) {
  if (!is_finite(all.value, p)) return all.value;
  if (all.how == reduce_sum) return all.value + all.lost;
  if (all.how != reduce_logsumexp) return all.value;
  return all.value + function_value(function_log, all.total, 0, 0);
}

/// Kernels add in chains of at most an eighth of the elements.
KILN_DEVICE ExpectedReduction expected_of(const ReducedElements& all, const Precision& p) {
  const double infinity = p.infinity;
  if (all.nan) return {infinity - infinity, 0};
  if (all.unsure) return {center_of(all, p), infinity};
  const double chain = (all.count / 8 + 32) * p.roundoff;
  if (all.how == reduce_sum) {
    if (!is_finite(all.value, p)) return {all.value, 0};
    if (all.size > p.largest / 2) return {all.value, infinity};
    const bool exact = all.whole && all.size * p.roundoff < 1;
    return {center_of(all, p), exact ? 0 : all.error + chain * all.size + p.flushed * all.count};
  }
  if (!is_finite(all.value, p)) return {all.value, 0};
  if (all.how != reduce_logsumexp)
    return {all.value, larger(all.high - all.value, all.value - all.low)};
  const double value = center_of(all, p);
  return {value, all.error + chain + p.roundoff * 8 * (2 + all.size + fabs(value))};
}
