// Products of integers into a D of 32 bits, with factors that are whole numbers: computed in 32
// bits throughout, and so exact wherever the result fits them. Kernels, the kernel of last resort
// and the verification's reference follow this one rule. Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "kiln/gemm.hpp"

namespace kiln {

/// Whether all that follows the sums of integers can be done in integers: D has 32 bits, and there
/// is no bias and no activation that is not a comparison.
constexpr bool integer_epilogue(const Gemm& gemm) {
  const Epilogue& e = gemm.epilogue;
  return gemm.d.dtype == DType::s32 && e.bias == Bias::none && e.activation <= Activation::relu &&
         !e.gate && e.expression.empty();
}

/// alpha and beta modulo 2^32.
struct WholeFactors {
  std::uint32_t alpha = 1, beta = 0;
};

/// A number of 32 bits that is this one, modulo 2^32; nothing where there is none.
inline std::optional<std::uint32_t> whole_factor(double x) {
  constexpr double kEnd = 0x1p31;
  if (!(x >= -kEnd && x < kEnd) || x != std::trunc(x)) return std::nullopt;
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(x));
}

/// The factors of a call that is computed in integers; nothing where fp32 is used, because a factor
/// has a fraction or the epilogue is one of floats.
inline std::optional<WholeFactors> whole_factors(const Gemm& gemm, double alpha, double beta) {
  if (!integer_epilogue(gemm)) return std::nullopt;
  const auto a = whole_factor(alpha), b = whole_factor(beta);
  if (!a || !b) return std::nullopt;
  return WholeFactors{*a, *b};
}

/// What an integer becomes that is computed in 32 bits.
inline double wrapped(double x) {
  constexpr double kExact = 0x1p53;
  if (!(x >= -kExact && x <= kExact)) return x;
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(x)));
}

}  // namespace kiln
