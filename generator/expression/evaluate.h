// The value of an expression, of numbers or of whatever else has functions. Knows no memory.
#pragma once

#include <array>
#include <span>

#include "generator/expression/functions.h"
#include "generator/expression/program.h"

namespace kiln::expression {

/// One element of D and what belongs to it.
struct Element {
  double acc = 0;                     // acc, or acc0
  std::span<const double> operands;   // in the order of the program's
  double m = 0, n = 0;                // its indices
  std::span<const double> reduced{};  // of what is reduced, in the program's order
  double second = 0;                  // acc1
};

/// Of a program, in its order.
using Values = std::array<double, kMostValues>;

/// In fp64, whatever the type of a kernel's values.
inline Values evaluated(const Program& program, const Element& element) {
  Values x;
  std::size_t reduced = 0;
  for (std::size_t i = 0; i < program.values.size(); ++i) {
    const Value& value = program.values[i];
    switch (value.op) {
      case Op::acc:
        x[i] = Product{value.which} == Product::second ? element.second : element.acc;
        break;
      case Op::operand:
        x[i] = element.operands[value.which];
        break;
      case Op::number:
        x[i] = value.number;
        break;
      case Op::index:
        x[i] = static_cast<Index>(value.which) == Index::m ? element.m : element.n;
        break;
      case Op::call:
        x[i] = function_value(value.which, x[value.of[0]], x[value.of[1]], x[value.of[2]]);
        break;
      case Op::reduced:
        x[i] = element.reduced[reduced++];
        break;
    }
  }
  return x;
}
/// What D gets.
inline double evaluate(const Program& program, const Element& element) {
  return evaluated(program, element)[program.d];
}

}  // namespace kiln::expression
