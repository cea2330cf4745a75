// What a right kernel may compute of an expression: each value as an interval, which a function
// widens by what its implementations may be off. Knows functions by their rows; knows no kernel.
#pragma once

#include <span>

#include "generator/expression/program.h"

namespace kiln {

/// All numbers from `low` to `high`, none where low > high; and NaN, where `nan`.
struct Interval {
  double low = 0, high = 0;
  bool nan = false;
};

/// The type of a kernel's values.
struct Precision {
  double roundoff = 0x1p-24;
  double largest = 0x1.fffffep127;  // beyond it values become infinite
  double normal = 0x1p-126;         // the least number that is not denormal
  double least = 0x1p-149;          // absolute error of a denormal result
  double flushed = 0;               // what results near 0 may lose besides
};
/// Of fp32 or fp64.
Precision precision_of(DType type, double flushed);

/// x itself, as a kernel reads it.
Interval exactly(double x);
/// From value - error to value + error; a value that is infinite or NaN is itself.
Interval within(double value, double error);

struct ElementIntervals {
  Interval acc;
  std::span<const double> operands;  // exact: in the order of the program's
  double m = 0, n = 0;
};
Interval evaluate(const expression::Program& program, const Precision& precision,
                  const ElementIntervals& element);

}  // namespace kiln
