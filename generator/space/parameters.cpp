#include "generator/space/parameters.h"

#include <string_view>
#include <utility>

namespace kiln {
namespace {

std::string_view value_of(Activation f) {
  switch (f) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::gelu_erf:
      return "gelu_erf";
    case Activation::silu:
      return "silu";
  }
  return "none";
}

std::string_view value_of(Bias b) {
  switch (b) {
    case Bias::none:
      return "none";
    case Bias::per_row:
      return "per_row";
    case Bias::per_column:
      return "per_column";
  }
  return "none";
}

}  // namespace

Constant number(std::string name, std::int64_t value, std::string gloss) {
  return {"int", std::move(name), std::to_string(value), std::move(gloss)};
}

Constant flag(std::string name, bool value, std::string gloss) {
  return {"bool", std::move(name), value ? "true" : "false", std::move(gloss)};
}

std::string value_of(bool b) { return b ? "1" : "0"; }

bool integer_d(const Gemm& gemm) {
  return gemm.d.dtype == DType::s32 && gemm.epilogue == Epilogue{};
}

void add_epilogue(TemplateValues& to, const Gemm& gemm) {
  to["activation"] = value_of(gemm.epilogue.activation);
  to["bias"] = value_of(gemm.epilogue.bias);
  to["residual"] = value_of(gemm.epilogue.residual);
  to["integer_d"] = value_of(integer_d(gemm));
}

}  // namespace kiln
