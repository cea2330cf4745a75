#include "generator/problem/epilogue.h"

#include <fmt/format.h>

#include <array>
#include <cassert>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "generator/problem/enum_names.h"
#include "generator/problem/extent.h"

namespace kiln {
namespace {

using expression::Argument;

/// What the fields of one kind of problem spell.
struct Spelled {
  Expression expression;
  std::vector<Argument> arguments;
};

constexpr std::array<std::string_view, 5> kActivations{"", "relu", "gelu", "gelu_erf", "silu"};
static_assert(EnumNames<Activation>::names.size() == kActivations.size() &&
              static_cast<int>(Activation::gelu_tanh) == 2);
constexpr std::array<std::string_view, 6> kGates{"", "relu", "gelu", "gelu_erf", "silu", "sigmoid"};
static_assert(static_cast<int>(Gate::relu) == 1 &&
              static_cast<std::size_t>(Gate::expression) == kGates.size());
constexpr std::array<std::string_view, 3> kBiases{"", "bias[m]", "bias[n]"};
static_assert(EnumNames<Bias>::names.size() == kBiases.size() &&
              static_cast<int>(Bias::per_row) == 1);

Spelled spell(std::string_view bias, std::string_view function, bool gated, bool residual) {
  Spelled to;
  std::string value(gated ? "acc0" : "acc");
  if (!bias.empty()) {
    value += fmt::format("+{}", bias);
    to.arguments.push_back(Argument::bias);
  }
  if (!function.empty()) value = fmt::format("{}({})", function, value);
  if (gated) value += "*acc1";
  if (residual) {
    value += "+residual[batch,m,n]";
    to.arguments.push_back(Argument::residual);
  }
  to.expression = Expression::parse("d=" + value).value();
  return to;
}

using OfFunction = std::array<Spelled, 2>;  // without a residual and with it

/// Of all that fields can say; never destroyed.
struct Spellings {
  std::array<std::array<OfFunction, kActivations.size()>, kBiases.size()> plain;
  std::array<OfFunction, kGates.size()> gated;
  Spellings() {
    for (const bool residual : {false, true}) {
      for (std::size_t b = 0; b < kBiases.size(); ++b)
        for (std::size_t f = 0; f < kActivations.size(); ++f)
          if (b + f + (residual ? 1 : 0) > 0)
            plain[b][f][residual ? 1 : 0] = spell(kBiases[b], kActivations[f], false, residual);
      for (std::size_t f = 1; f < kGates.size(); ++f)
        gated[f][residual ? 1 : 0] = spell("", kGates[f], true, residual);
    }
  }
};

const Spelled& spelled(const Epilogue& fields) {
  static const Spellings& all = *new Spellings;
  const std::size_t residual = fields.residual ? 1 : 0;
  if (fields.gate) {
    assert(fields.gate->function != Gate::expression);  // a valid problem has one
    return all.gated[static_cast<std::size_t>(fields.gate->function)][residual];
  }
  return all.plain[static_cast<std::size_t>(fields.bias)]
                  [static_cast<std::size_t>(fields.activation)][residual];
}

}  // namespace

Expression epilogue_of(const Gemm& gemm) {
  if (!gemm.epilogue.expression.empty()) return gemm.epilogue.expression;
  return spelled(gemm.epilogue).expression;
}

std::span<const Argument> arguments_of_epilogue(const Gemm& gemm) {
  if (!gemm.epilogue.expression.empty()) return {};
  return spelled(gemm.epilogue).arguments;
}

expression::ExtraTypes types_of_epilogue(const Gemm& gemm) {
  if (!gemm.epilogue.expression.empty()) return types_of_extras(gemm);
  expression::ExtraTypes types;
  for (const Argument argument : arguments_of_epilogue(gemm))
    types.operands.push_back(
        dtype_of(gemm, argument == Argument::bias ? Operand::bias : Operand::residual));
  return types;
}

}  // namespace kiln
