#include "bench/post_ops.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "generator/expression/functions.h"
#include "generator/expression/program.h"
#include "generator/problem/epilogue.h"

namespace kiln::onednn {
namespace {

using expression::Op;
using expression::Program;
using expression::Value;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Named {
  std::string_view name;
  Algorithm algorithm;
};
/// Functions of one value.
constexpr Named kOfOne[] = {
    {"relu", Algorithm::relu},        {"tanh", Algorithm::tanh},
    {"abs", Algorithm::abs},          {"sqrt", Algorithm::sqrt},
    {"sigmoid", Algorithm::logistic}, {"exp", Algorithm::exp},
    {"gelu", Algorithm::gelu_tanh},   {"silu", Algorithm::swish},
    {"log", Algorithm::log},          {"gelu_erf", Algorithm::gelu_erf},
    {"round", Algorithm::round},      {expression::kNegate, Algorithm::linear},
};
/// Functions of the element and an operand, the element first.
constexpr Named kOfTwo[] = {{"add", Algorithm::add},       {"multiply", Algorithm::multiply},
                            {"max", Algorithm::max},       {"min", Algorithm::min},
                            {"divide", Algorithm::divide}, {"subtract", Algorithm::subtract}};

template <std::size_t count>
std::optional<Algorithm> named(const Named (&table)[count], std::string_view name) {
  const auto* const found = std::ranges::find(table, name, &Named::name);
  return found == std::end(table) ? std::nullopt : std::optional(found->algorithm);
}

/// Walks from D's value back to the product; steps are found last first.
class Chain {
 public:
  explicit Chain(const Problem& problem)
      : program_(*epilogue_of(problem.gemm).program()),
        arguments_(arguments_of_epilogue(problem.gemm)) {}

  std::optional<std::vector<PostOp>> steps() {
    std::size_t at = program_.d;
    while (program_.values[at].op != Op::acc) {
      const auto next = before(program_.values[at]);
      if (!next) return std::nullopt;
      at = *next;
    }
    std::ranges::reverse(steps_);
    return std::move(steps_);
  }

 private:
  bool made_of_product(std::size_t at) const {
    const Value& value = program_.values[at];
    if (value.op != Op::call) return value.op == Op::acc || value.op == Op::reduced;
    for (int i = 0; i < arity_of(value); ++i)
      if (made_of_product(value.of.at(std::size_t(i)))) return true;
    return false;
  }

  void step(Algorithm algorithm, float alpha = 0, float beta = 0) {
    steps_.push_back({.algorithm = algorithm, .alpha = alpha, .beta = beta});
  }

  /// Adds the step that makes the value; the value that it is made of.
  std::optional<std::size_t> before(const Value& value) {
    if (value.op != Op::call) return std::nullopt;
    const std::string_view name = expression::kFunctions[value.which].name;
    const std::size_t first = value.of[0], second = value.of[1];
    switch (arity_of(value)) {
      case 1:
        return of_one(name) ? std::optional(first) : std::nullopt;
      case 2:
        if (first == second && name == "multiply") {
          step(Algorithm::square);
          return first;
        }
        if (made_of_product(first) == made_of_product(second)) return std::nullopt;
        if (made_of_product(first))
          return of_two(name, program_.values[second]) ? std::optional(first) : std::nullopt;
        return of_two_reversed(name, program_.values[first]) ? std::optional(second) : std::nullopt;
      default:
        return name == "clamp" && clips(value) ? std::optional(first) : std::nullopt;
    }
  }

  bool of_one(std::string_view name) {
    const auto algorithm = named(kOfOne, name);
    if (algorithm)
      step(*algorithm, *algorithm == Algorithm::swish    ? 1.0F
                       : *algorithm == Algorithm::linear ? -1.0F
                                                         : 0.0F);
    return algorithm.has_value();
  }

  bool of_two(std::string_view name, const Value& other) {
    const auto algorithm = named(kOfTwo, name);
    if (!algorithm) return false;
    if (other.op == Op::operand) return binary(*algorithm, other.which);
    if (other.op != Op::number) return false;
    const auto x = static_cast<float>(other.number);
    switch (*algorithm) {
      case Algorithm::add:
        step(Algorithm::linear, 1, x);
        return true;
      case Algorithm::subtract:
        step(Algorithm::linear, 1, -x);
        return true;
      case Algorithm::multiply:
        step(Algorithm::linear, x, 0);
        return true;
      case Algorithm::divide:
        step(Algorithm::linear, static_cast<float>(1 / other.number), 0);
        return true;
      case Algorithm::max:
        step(Algorithm::clip, x, kInfinity);
        return true;
      default:
        step(Algorithm::clip, -kInfinity, x);
        return true;
    }
  }

  /// The element is the second argument.
  bool of_two_reversed(std::string_view name, const Value& other) {
    if (name == "divide") return false;
    if (name != "subtract") return of_two(name, other);
    if (other.op == Op::number) {
      step(Algorithm::linear, -1, static_cast<float>(other.number));
      return true;
    }
    if (!of_two("add", other)) return false;
    step(Algorithm::linear, -1, 0);
    return true;
  }

  bool clips(const Value& value) {
    const Value &low = program_.values[value.of[1]], &high = program_.values[value.of[2]];
    if (low.op != Op::number || high.op != Op::number) return false;
    step(Algorithm::clip, static_cast<float>(low.number), static_cast<float>(high.number));
    return true;
  }

  bool binary(Algorithm algorithm, std::size_t which) {
    const ExtraOperand& operand = program_.operands[which];
    if (operand.per_m != 1 || operand.per_n != 1) return false;
    Operand argument = extra_operand(which);
    if (!arguments_.empty())
      argument =
          arguments_[which] == expression::Argument::bias ? Operand::bias : Operand::residual;
    steps_.push_back(
        {.algorithm = algorithm,
         .operand = argument,
         .along = {expression::has_index(operand, Index::batch),
                   expression::has_index(operand, Index::m),
                   expression::has_index(operand, Index::n)},
         .column_major = expression::has_lines(operand) && operand.index.back() == Index::m});
    return true;
  }

  const Program& program_;
  std::span<const expression::Argument> arguments_;
  std::vector<PostOp> steps_;
};

}  // namespace

std::optional<std::vector<PostOp>> post_ops(const Problem& problem) {
  const Expression epilogue = epilogue_of(problem.gemm);
  if (epilogue.empty()) return std::vector<PostOp>{};
  if (!epilogue.outputs().empty() || epilogue.of_gate() || !epilogue.stores_d())
    return std::nullopt;
  return Chain(problem).steps();
}

}  // namespace kiln::onednn
