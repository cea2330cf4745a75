#include "tuner/verify/interval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "generator/expression/functions.h"

namespace kiln {
namespace {

using expression::Course;
using expression::Function;
using expression::Op;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Interval kNothing{kInfinity, -kInfinity, true};
constexpr Interval kAnything{-kInfinity, kInfinity, true};

bool empty(const Interval& x) { return x.low > x.high; }
bool holds(const Interval& x, double value) { return x.low <= value && value <= x.high; }
bool infinite(const Interval& x) { return x.low == -kInfinity || x.high == kInfinity; }

/// The least interval with these numbers; a NaN among them is one that may be met.
template <std::size_t kCount>
Interval hull(const std::array<double, kCount>& numbers, bool nan) {
  Interval out = kNothing;
  out.nan = nan;
  for (const double x : numbers) {
    if (std::isnan(x)) {
      out.nan = true;
      continue;
    }
    out.low = std::min(out.low, x);
    out.high = std::max(out.high, x);
  }
  return out;
}

Interval joined(const Interval& x, const Interval& y) {
  return {std::min(x.low, y.low), std::max(x.high, y.high), x.nan || y.nan};
}

/// What an implementation may make of a result: off by its roundoffs, denormal or beyond the type's
/// largest number.
Interval rounded(Interval x, const Function& f, const Precision& p, double argument = 0) {
  if (empty(x) || f.roundoffs == 0) return x;
  const double share = f.roundoffs * p.roundoff;
  // Where e^x or e^-x overflows, a denormal result is 0.
  const double of_argument = f.of_argument == 0 ? 0 : f.of_argument * p.roundoff * argument;
  const double near_zero = p.least + p.flushed + (f.exponential ? p.normal : 0) + of_argument;
  x.low -= std::isfinite(x.low) ? share * std::fabs(x.low) + near_zero : 0;
  x.high += std::isfinite(x.high) ? share * std::fabs(x.high) + near_zero : 0;
  // The largest number may be rounded to infinity, and what is beyond it to the largest number
  // where the result was computed a little less.
  const double edge = p.largest * (1 - share - f.of_argument * p.roundoff);
  if (x.high >= edge) x.high = kInfinity;
  if (x.low <= -edge) x.low = -kInfinity;
  x.low = std::min(x.low, x.low == kInfinity ? kInfinity : p.largest);
  x.high = std::max(x.high, x.high == -kInfinity ? -kInfinity : -p.largest);
  return x;
}

Interval sum(const Interval& x, const Interval& y) {
  const bool opposite = (holds(x, kInfinity) && holds(y, -kInfinity)) ||
                        (holds(x, -kInfinity) && holds(y, kInfinity));
  Interval out{x.low + y.low, x.high + y.high, x.nan || y.nan || opposite};
  // Ends that cancel: of what does not, any number is left.
  const bool all = x.low == x.high && y.low == y.high && opposite;
  if (all) return kNothing;
  if (std::isnan(out.low)) out.low = -kInfinity;
  if (std::isnan(out.high)) out.high = kInfinity;
  return out;
}

Interval negated(const Interval& x) { return {-x.high, -x.low, x.nan}; }

Interval product(const Interval& x, const Interval& y) {
  const bool nan = x.nan || y.nan || (holds(x, 0) && infinite(y)) || (holds(y, 0) && infinite(x));
  std::array<double, 4> ends{x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
  const bool only = x.low == x.high && y.low == y.high && std::isnan(ends[0]);
  if (only) return kNothing;
  // Zero times what is nearly infinite is zero.
  for (double& each : ends)
    if (std::isnan(each)) each = 0;
  return hull(ends, nan);
}

Interval quotient(const Interval& x, const Interval& y) {
  if (holds(y, 0)) {
    if (x.low == x.high && y.low == y.high && (x.low == 0 || std::isnan(x.low))) return kNothing;
    return kAnything;
  }
  const bool nan = x.nan || y.nan || (infinite(x) && infinite(y));
  std::array<double, 4> ends{x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high};
  const bool only = x.low == x.high && y.low == y.high && std::isnan(ends[0]);
  if (only) return kNothing;
  for (double& each : ends)
    if (std::isnan(each)) return kAnything;
  return hull(ends, nan);
}

/// Whether a comparison may hold, and whether it may not.
struct Truth {
  bool yes = false, no = false;
};
Truth compared(const Function& f, const Interval& x, const Interval& y) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Truth truth;
  const auto add = [&](double a, double b) { (f.of(a, b, 0) != 0 ? truth.yes : truth.no) = true; };
  if (x.nan || y.nan) add(kNan, 0);
  if (empty(x) || empty(y)) return truth;
  for (const double a : {x.low, x.high})
    for (const double b : {y.low, y.high}) add(a, b);
  // The ends say how others compare, but not that two within are equal.
  const double shared = std::max(x.low, y.low);
  if (shared <= std::min(x.high, y.high)) add(shared, shared);
  return truth;
}

/// Of monotone functions and of valleys.
Interval applied(const Function& f, std::span<const Interval> x) {
  Interval out;
  for (const Interval& each : x) out.nan |= each.nan;
  for (const Interval& each : x)
    if (empty(each)) return {kNothing.low, kNothing.high, true};
  const auto low = [&](std::size_t i) { return i < x.size() ? x[i].low : 0; };
  const auto high = [&](std::size_t i) { return i < x.size() ? x[i].high : 0; };
  Interval first = x[0];
  if (first.low < f.domain) {
    out.nan = true;
    if (first.high < f.domain) return {kNothing.low, kNothing.high, true};
    first.low = f.domain;
  }
  const double at_low = f.of(first.low, low(1), low(2)),
               at_high = f.of(first.high, high(1), high(2));
  const bool nan = out.nan;
  switch (f.course) {
    case Course::rising:
    case Course::falling:
      return hull(std::array{at_low, at_high}, nan);
    case Course::valley:
      if (f.of_argument != 0 && first.low == -kInfinity) return kAnything;
      if (holds(first, f.lowest))
        return hull(std::array{at_low, at_high, f.of(f.lowest, 0, 0)}, nan);
      return hull(std::array{at_low, at_high}, nan);
    default:
      return kAnything;
  }
}

Interval called(const Function& f, std::span<const Interval> x, const Truth& truth,
                const Precision& p) {
  if (f.course == Course::choice) {
    Interval out = kNothing;
    out.nan = false;
    if (truth.yes) out = joined(out, x[1]);
    if (truth.no) out = joined(out, x[2]);
    return out;
  }
  for (const Interval& each : x)
    if (empty(each) && f.course != Course::rising) return kNothing;
  switch (f.course) {
    case Course::sum:
      return rounded(sum(x[0], x[1]), f, p);
    case Course::difference:
      return rounded(sum(x[0], negated(x[1])), f, p);
    case Course::product:
      return rounded(product(x[0], x[1]), f, p);
    case Course::quotient:
      return rounded(quotient(x[0], x[1]), f, p);
    default:
      return rounded(applied(f, x), f, p, std::max(std::fabs(x[0].low), std::fabs(x[0].high)));
  }
}

}  // namespace

Precision precision_of(DType type, double flushed) {
  if (type != DType::fp64) return {.flushed = flushed};
  return {0x1p-53, std::numeric_limits<double>::max(), 0x1p-1022, 0x1p-1074, flushed};
}

Interval exactly(double x) {
  if (std::isnan(x)) return kNothing;
  return {x, x, false};
}

Interval within(double value, double error) {
  if (!std::isfinite(value)) return exactly(value);
  return {value - error, value + error, false};
}

Interval evaluate(const expression::Program& program, const Precision& precision,
                  const ElementIntervals& element) {
  constexpr Function kConstant{"number", 0, Course::sum, nullptr, 1};
  std::array<Interval, expression::kMostValues> x;
  std::array<Truth, expression::kMostValues> truth;
  for (std::size_t i = 0; i < program.values.size(); ++i) {
    const expression::Value& value = program.values[i];
    switch (value.op) {
      case Op::acc:
        x[i] = element.acc;
        break;
      case Op::operand:
        x[i] = exactly(element.operands[value.which]);
        break;
      case Op::number:
        x[i] = static_cast<float>(value.number) == value.number
                   ? exactly(value.number)
                   : rounded(exactly(value.number), kConstant, precision);
        break;
      case Op::index:
        x[i] = exactly(static_cast<Index>(value.which) == Index::m ? element.m : element.n);
        break;
      case Op::call: {
        const Function& f = expression::kFunctions[value.which];
        std::array<Interval, 3> of;
        for (int a = 0; a < f.arity; ++a)
          of.at(static_cast<std::size_t>(a)) = x[value.of.at(static_cast<std::size_t>(a))];
        if (f.course == Course::comparison)
          truth[i] = compared(f, of[0], of[1]);
        else
          x[i] = called(f, std::span(of).first(static_cast<std::size_t>(f.arity)),
                        truth[value.of[0]], precision);
        break;
      }
    }
  }
  return x[program.d];
}

}  // namespace kiln
