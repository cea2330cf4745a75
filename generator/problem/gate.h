// Which columns of op(B) make a column of D in a gated problem. Pure.
#pragma once

#include <cstdint>

#include "kiln/gemm.hpp"

namespace kiln {

inline bool gated(const Gemm& gemm) { return gemm.epilogue.gate != Gate::none; }

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
  if (gemm.epilogue.gate_order == GateOrder::interleaved) return {second, 2};
  return {second * gemm.n, 1};
}

}  // namespace kiln
