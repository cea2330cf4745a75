#include "tuner/verify/interval.h"

#include <algorithm>
#include <limits>

namespace kiln::intervals {

Precision precision_of(DType type, double flushed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (type == DType::fp64)
    return {0x1p-53, std::numeric_limits<double>::max(), 0x1p-1022, 0x1p-1074, flushed, kInfinity};
  return {0x1p-24, 0x1.fffffep127, 0x1p-126, 0x1p-149, flushed, kInfinity};
}

std::vector<ExpressionStep> steps_of(const expression::Program& program) {
  using expression::Op;
  static_assert(int(Op::acc) == op_acc && int(Op::operand) == op_operand &&
                int(Op::number) == op_number && int(Op::index) == op_index &&
                int(Op::call) == op_call && int(Op::reduced) == op_reduced && int(Index::m) == 1 &&
                int(Index::n) == 2 && int(expression::Product::second) == 2);
  static_assert(int(expression::Course::rising) == course_rising &&
                int(expression::Course::sum) == course_sum &&
                int(expression::Course::choice) == course_choice &&
                int(expression::Course::drawn) == course_drawn &&
                int(expression::Course::remainder) == course_remainder);
  std::vector<ExpressionStep> steps;
  for (const expression::Value& value : program.values) {
    ExpressionStep step{.op = static_cast<int>(value.op),
                        .which = value.which,
                        .number = value.number,
                        .roundoffs = 1};
    // A reduced value has its roundings already: it is used as it is.
    step.arity = expression::arity_of(value);
    std::ranges::copy(value.of, step.of);
    step.exact = value.op != Op::number || static_cast<float>(value.number) == value.number;
    if (value.op == Op::call) {
      const expression::Function& f = expression::kFunctions[value.which];
      step.course = static_cast<int>(f.course);
      step.exact = f.roundoffs == 0, step.exponential = f.exponential;
      step.roundoffs = f.roundoffs, step.of_argument = f.of_argument;
      step.lowest = f.lowest, step.domain = f.domain;
    }
    steps.push_back(step);
  }
  return steps;
}

}  // namespace kiln::intervals
