// What a right kernel may compute of an expression: each value as an interval, which a function
// widens by what its implementations may be off. On a GPU and, where the host includes this file
// (tuner/verify/interval.h), on the CPU: plain C++ without headers. Expects functions.h.
#pragma once

/// All numbers from `low` to `high`, none where low > high; and NaN, where `nan`.
struct Interval {
  double low, high;
  bool nan;
};

/// The type of a kernel's values.
struct Precision {
  double roundoff, largest;  // beyond `largest` values become infinite
  double normal, least;      // the least numbers that are not denormal, and not 0
  double flushed;            // what results near 0 may lose besides
  double infinity;
};

/// How a function's value follows its arguments.
enum ExpressionCourse {
  course_rising,   // in every argument
  course_falling,  // of one argument
  course_valley,   // of one argument: falls up to `lowest`, then rises
  course_sum,      // x + y, and likewise
  course_difference,
  course_product,
  course_quotient,
  course_comparison,  // of two arguments: no number
  course_choice,      // where(c, x, y)
  course_drawn,       // a number from 0 to 1 that follows from whole numbers alone
  course_remainder    // of whole numbers; of others it is any number
};

enum ExpressionOp { op_acc, op_operand, op_number, op_index, op_call, op_reduced };

/// One value of an expression, behind those that it is made of.
struct ExpressionStep {
  int op;
  int which;  // the operand, the function or the index: 1 is m, 2 is n
  int of[3];  // a function's arguments, or what is reduced: numbers of earlier steps
  int arity, course;
  bool exact;  // a number that fp32 has; a function that is not rounded
  bool exponential;
  double number;
  double roundoffs, of_argument;  // what implementations may be off, in unit roundoffs
  double lowest, domain;
};

constexpr int kMostSteps = 96;
/// Of them what is reduced and read.
constexpr int kMostReduced = 12;

KILN_DEVICE bool is_empty(const Interval& x) { return x.low > x.high; }
KILN_DEVICE bool contains(const Interval& x, double value) {
  return x.low <= value && value <= x.high;
}
KILN_DEVICE bool is_infinite(const Interval& x, const Precision& p) {
  return x.low == -p.infinity || x.high == p.infinity;
}
KILN_DEVICE bool is_finite(double x, const Precision& p) {
  return x > -p.infinity && x < p.infinity;
}
KILN_DEVICE Interval nothing(const Precision& p) { return {p.infinity, -p.infinity, true}; }
KILN_DEVICE Interval anything(const Precision& p) { return {-p.infinity, p.infinity, true}; }
KILN_DEVICE Interval exactly(double x, const Precision& p) {
  if (x != x) return nothing(p);
  return {x, x, false};
}
/// A value that is infinite or NaN is itself.
KILN_DEVICE Interval within(double value, double error, const Precision& p) {
  if (!is_finite(value, p)) return exactly(value, p);
  return {value - error, value + error, false};
}

/// Takes a number in; a NaN is one that may be met.
KILN_DEVICE void widen(Interval& x, double number) {
  if (number != number) {
    x.nan = true;
    return;
  }
  if (number < x.low) x.low = number;
  if (number > x.high) x.high = number;
}

/// What an implementation may make of a result: off by its roundoffs, denormal or beyond the type's
/// largest number. `argument` is the largest magnitude of the function's.
KILN_DEVICE Interval rounded(Interval x, const ExpressionStep& f, const Precision& p,
                             double argument) {
  if (is_empty(x) || f.exact) return x;
  const double share = f.roundoffs * p.roundoff, of_argument = f.of_argument * p.roundoff;
  // Where e^x or e^-x overflows, a denormal result is 0.
  const double near_zero = p.least + p.flushed + (f.exponential ? p.normal : 0) +
                           (of_argument == 0 ? 0 : of_argument * argument);
  if (is_finite(x.low, p)) x.low -= share * fabs(x.low) + near_zero;
  if (is_finite(x.high, p)) x.high += share * fabs(x.high) + near_zero;
  // The largest number may be rounded to infinity, and what is beyond it to the largest number.
  const double edge = p.largest * (1 - share - of_argument);
  if (x.high >= edge) x.high = p.infinity;
  if (x.low <= -edge) x.low = -p.infinity;
  if (x.low > p.largest && x.low < p.infinity) x.low = p.largest;
  if (x.high < -p.largest && x.high > -p.infinity) x.high = -p.largest;
  return x;
}

KILN_DEVICE Interval sum_of(const Interval& x, const Interval& y, const Precision& p) {
  const bool opposite = (contains(x, p.infinity) && contains(y, -p.infinity)) ||
                        (contains(x, -p.infinity) && contains(y, p.infinity));
  if (opposite && x.low == x.high && y.low == y.high) return nothing(p);
  Interval out = {x.low + y.low, x.high + y.high, x.nan || y.nan || opposite};
  // Ends that cancel: of what does not, any number is left.
  if (out.low != out.low) out.low = -p.infinity;
  if (out.high != out.high) out.high = p.infinity;
  return out;
}

KILN_DEVICE Interval product_of(const Interval& x, const Interval& y, const Precision& p) {
  const bool nan = x.nan || y.nan || (contains(x, 0) && is_infinite(y, p)) ||
                   (contains(y, 0) && is_infinite(x, p));
  const double ends[4] = {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
  if (x.low == x.high && y.low == y.high && ends[0] != ends[0]) return nothing(p);
  Interval out = nothing(p);
  // Zero times what is nearly infinite is zero.
  for (int i = 0; i < 4; ++i) widen(out, ends[i] == ends[i] ? ends[i] : 0);
  out.nan = nan;
  return out;
}

KILN_DEVICE Interval quotient_of(const Interval& x, const Interval& y, const Precision& p) {
  const bool single = x.low == x.high && y.low == y.high;
  if (contains(y, 0)) return single && x.low == 0 ? nothing(p) : anything(p);
  const double ends[4] = {x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high};
  if (single && ends[0] != ends[0]) return nothing(p);
  Interval out = nothing(p);
  for (int i = 0; i < 4; ++i) {
    if (ends[i] != ends[i]) return anything(p);
    widen(out, ends[i]);
  }
  out.nan = x.nan || y.nan || (is_infinite(x, p) && is_infinite(y, p));
  return out;
}

/// What a function makes of a NaN: one again, but where it is a cast to integers.
KILN_DEVICE Interval of_nan(const ExpressionStep& f, const Precision& p) {
  const double nan = p.infinity - p.infinity;
  return exactly(function_value(f.which, nan, nan, nan), p);
}
/// Of monotone functions and of valleys.
KILN_DEVICE Interval applied(const ExpressionStep& f, const Interval* of, const Precision& p) {
  bool nan = false;
  for (int i = 0; i < f.arity; ++i) {
    nan = nan || of[i].nan;
    if (is_empty(of[i])) return of_nan(f, p);
  }
  Interval first = of[0];
  if (first.low < f.domain) {
    if (first.high < f.domain) return nothing(p);
    nan = true;
    first.low = f.domain;
  }
  // The value of smooth ones at -infinity is not agreed on.
  if (f.course == course_valley && f.of_argument != 0 && first.low == -p.infinity)
    return anything(p);
  Interval out = nan ? of_nan(f, p) : nothing(p);
  out.nan = out.nan && nan;
  widen(out, function_value(f.which, first.low, of[1].low, of[2].low));
  widen(out, function_value(f.which, first.high, of[1].high, of[2].high));
  if (f.course == course_valley && contains(first, f.lowest))
    widen(out, function_value(f.which, f.lowest, 0, 0));
  return out;
}

/// Whether a comparison may hold: 1; whether it may not: 2.
KILN_DEVICE int truth_of(const ExpressionStep& f, const Interval& x, const Interval& y,
                         const Precision& p) {
  const auto side = [&](double a, double b) {
    return function_value(f.which, a, b, 0) != 0 ? 1 : 2;
  };
  int truth = 0;
  const double nan = p.infinity - p.infinity;
  if (x.nan || y.nan) truth |= side(nan, 0);
  if (is_empty(x) || is_empty(y)) return truth;
  truth |= side(x.low, y.low) | side(x.low, y.high) | side(x.high, y.low) | side(x.high, y.high);
  // The ends say how others compare, but not that two within are equal.
  const double shared = larger(x.low, y.low);
  if (shared <= smaller(x.high, y.high)) truth |= side(shared, shared);
  return truth;
}

KILN_DEVICE Interval chosen(int truth, const Interval& yes, const Interval& no,
                            const Precision& p) {
  Interval out = nothing(p);
  out.nan = false;
  for (int i = 0; i < 2; ++i) {
    if ((truth & (i + 1)) == 0) continue;
    const Interval& one = i == 0 ? yes : no;
    if (one.low < out.low) out.low = one.low;
    if (one.high > out.high) out.high = one.high;
    out.nan = out.nan || one.nan;
  }
  return out;
}

KILN_DEVICE Interval drawn(const ExpressionStep& f, const Interval* of, const Precision& p) {
  for (int i = 0; i < f.arity; ++i)
    if (of[i].nan || of[i].low != of[i].high || !is_counter(of[i].low)) return {0, 1, false};
  return exactly(function_value(f.which, of[0].low, of[1].low, of[2].low), p);
}

KILN_DEVICE Interval remainder_of(const ExpressionStep& f, const Interval* of, const Precision& p) {
  for (int i = 0; i < 2; ++i)
    if (of[i].nan || of[i].low != of[i].high || !is_counter(of[i].low)) return anything(p);
  if (of[1].low == 0) return anything(p);
  return exactly(function_value(f.which, of[0].low, of[1].low, 0), p);
}

KILN_DEVICE bool is_whole(const Interval& x) {
  return x.low == x.high && !x.nan && is_counter(fabs(x.low));
}
/// What additions and multiplications make of x and y. Whole numbers that fp32 has are not rounded.
KILN_DEVICE Interval rounded_once(const Interval& z, const Interval& x, const Interval& y,
                                  const ExpressionStep& f, const Precision& p) {
  return is_whole(x) && is_whole(y) && is_whole(z) ? z : rounded(z, f, p, 0);
}

KILN_DEVICE Interval called(const ExpressionStep& f, const Interval* of, int truth,
                            const Precision& p) {
  if (f.course == course_choice) return chosen(truth, of[1], of[2], p);
  if (f.course == course_drawn) return drawn(f, of, p);
  if (f.course == course_remainder) return remainder_of(f, of, p);
  const bool many = f.course >= course_sum && f.course <= course_quotient;
  for (int i = 0; many && i < f.arity; ++i)
    if (is_empty(of[i])) return nothing(p);
  const Interval& x = of[0];
  const Interval& y = of[1];
  switch (f.course) {
    case course_sum:
      return rounded_once(sum_of(x, y, p), x, y, f, p);
    case course_difference:
      return rounded_once(sum_of(x, {-y.high, -y.low, y.nan}, p), x, y, f, p);
    case course_product:
      return rounded_once(product_of(x, y, p), x, y, f, p);
    case course_quotient:
      return rounded(quotient_of(x, y, p), f, p, 0);
    default:
      return rounded(applied(f, of, p), f, p, larger(fabs(x.low), fabs(x.high)));
  }
}

/// The value of step `result`. `products`: the product's element, or those of a gate's two;
/// `operands`: of the element, in the order of the expression's; `reduced`: what the element's
/// lines are, in the order of the steps (null: it is not known).
KILN_DEVICE Interval expression_interval(const ExpressionStep* steps, int result,
                                         const Precision& p, const Interval (&products)[2],
                                         const double* operands, const Interval* reduced, double m,
                                         double n) {
  Interval x[kMostSteps];
  int truth[kMostSteps];
  int lines = 0;
  for (int i = 0; i <= result; ++i) {
    const ExpressionStep& step = steps[i];
    truth[i] = 0;
    if (step.op == op_acc) {
      x[i] = products[step.which == 2 ? 1 : 0];
    } else if (step.op == op_operand) {
      // Values of fp32 round what is loaded from fp64.
      ExpressionStep load = step;
      const double value = operands[step.which];
      load.exact = p.roundoff < 1e-10 || double(float(value)) == value;
      x[i] = rounded(exactly(value, p), load, p, 0);
    } else if (step.op == op_number) {
      x[i] = rounded(exactly(step.number, p), step, p, 0);
    } else if (step.op == op_index) {
      x[i] = exactly(step.which == 1 ? m : n, p);
    } else if (step.op == op_reduced) {
      x[i] = reduced == nullptr ? anything(p) : reduced[lines];
      ++lines;
    } else {
      Interval of[3] = {{0, 0, false}, {0, 0, false}, {0, 0, false}};
      for (int a = 0; a < step.arity; ++a) of[a] = x[step.of[a]];
      if (step.course == course_comparison)
        truth[i] = truth_of(step, of[0], of[1], p);
      else
        x[i] = called(step, of, truth[step.of[0]], p);
    }
  }
  return x[result];
}
