// The supported element types, one row a pair of operands: read by the builders, the rules and the
// text form. Knows no layouts and no kernels.
#pragma once

#include <string_view>

#include "kiln/dtype.hpp"

namespace kiln {

struct TypeRow {
  std::string_view word;  // how a shape line names the pair
  DType a, b;
  DType accumulator;
  std::string_view outputs;  // space-separated; the first is the usual one

  constexpr DType usual_output() const { return *dtype_from(outputs.substr(0, outputs.find(' '))); }
  constexpr bool allows_output(DType t) const {
    for (std::string_view rest = outputs; !rest.empty();) {
      const std::size_t end = rest.find(' ');
      if (rest.substr(0, end) == name(t)) return true;
      rest = end == rest.npos ? std::string_view{} : rest.substr(end + 1);
    }
    return false;
  }
};

inline constexpr std::string_view kIntegerOutputs = "s32 fp32 s8 u8 bf16 fp16";

/// u8·u8 is missing on purpose: no x86 dot-product instruction takes two unsigned operands.
inline constexpr TypeRow kTypeRows[] = {
    {"fp32", fp32, fp32, fp32, "fp32 bf16 fp16"}, {"fp64", fp64, fp64, fp64, "fp64"},
    {"fp16", fp16, fp16, fp32, "fp16 bf16 fp32"}, {"bf16", bf16, bf16, fp32, "bf16 fp16 fp32"},
    {"int8", s8, s8, s32, kIntegerOutputs},       {"u8s8", u8, s8, s32, kIntegerOutputs},
    {"s8u8", s8, u8, s32, kIntegerOutputs},
};

/// The row of an operand pair, or null.
constexpr const TypeRow* type_row(DType a, DType b) {
  for (const TypeRow& row : kTypeRows)
    if (row.a == a && row.b == b) return &row;
  return nullptr;
}

/// The row that a single type stands for: its own pair, or u8·s8 for u8; null when there is none.
constexpr const TypeRow* default_types(DType t) {
  return t == u8 ? type_row(u8, s8) : type_row(t, t);
}

}  // namespace kiln
