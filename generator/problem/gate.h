// Which columns of op(B) make a column of D in a gated problem. Pure.
#pragma once

#include <cstdint>

#include "kiln/gemm.hpp"

namespace kiln {

inline bool gated(const Gemm& gemm) { return gemm.epilogue.gate.has_value(); }
/// Whether there is a gate, and the columns of its products alternate.
inline bool interleaved(const Gemm& gemm) {
  return gated(gemm) && gemm.epilogue.gate->order == GateOrder::interleaved;
}
/// Whether an expression makes what D gets of both products.
inline bool gated_by_expression(const Gemm& gemm) {
  return gated(gemm) && gemm.epilogue.gate->function == Gate::expression;
}
/// Of the two products of a gated problem: the one that goes through the gate, or the other.
enum class Factor : std::uint8_t { first, second };
inline constexpr Factor kFactors[] = {Factor::first, Factor::second};

/// Column j of D is made of columns `offset + step · j` of op(B), one of either product.
struct FactorColumns {
  std::int64_t offset = 0, step = 1;
  std::int64_t operator()(std::int64_t column) const { return offset + step * column; }
};
/// Without a gate the same columns.
inline FactorColumns columns_of(const Gemm& gemm, Factor factor) {
  if (!gated(gemm)) return {};
  const std::int64_t second = factor == Factor::second ? 1 : 0;
  if (interleaved(gemm)) return {second, 2};
  return {second * gemm.n, 1};
}

}  // namespace kiln
