// How values become codes whose scale may follow from them: the arithmetic of Gemm::scale_d, for
// what computes it on the host and for what compares. Pure.
#pragma once

#include <cmath>
#include <cstdint>

#include "generator/problem/extent.h"
#include "kiln/dtype.hpp"
#include "kiln/gemm.hpp"

namespace kiln {

/// The largest number of a type that a D with scales may have.
constexpr float largest_code(DType type) { return type == DType::s8 ? 127.0F : 448.0F; }

/// Below it a scale's reciprocal could overflow: 1 takes its place.
inline constexpr float kLeastScale = 0x1p-126F;

/// The scale of elements of which `largest` is the largest magnitude.
inline float scale_for(DType type, float largest) {
  const float scale = largest / largest_code(type);
  return scale >= kLeastScale ? scale : 1.0F;
}

/// What is rounded to a code.
inline float in_units(float value, float scale) { return value * (1.0F / scale); }

/// The larger one of two magnitudes, of which the second is that of `value`; NaN does not count.
inline float larger_magnitude(float largest, float value) {
  return std::fabs(value) > largest ? std::fabs(value) : largest;
}

/// Elements of a row of D that share a scale.
inline std::int64_t columns_of_a_scale(const Gemm& gemm) {
  const int along = scale_block(gemm.d.q.scale).along;
  return along == 0 ? gemm.n : along;
}

/// Which of all scales is that of an element of D, `row` and `column` being those of its batch.
inline std::int64_t place_of_scale(const Gemm& gemm, std::int64_t batch, std::int64_t row,
                                   std::int64_t column) {
  const Extent e = extent(gemm, Operand::scale_d);
  const std::int64_t line = gemm.d.q.scale == Scale::tensor ? 0 : row;
  return batch * batch_stride(gemm, Operand::scale_d) + line * e.length +
         column / columns_of_a_scale(gemm);
}

}  // namespace kiln
