// How far each operand of a problem reaches in memory: extents, pitches and spans, in elements.
// Knows layouts; knows no addresses.
#pragma once

#include <cstdint>

#include "kiln/gemm.hpp"

namespace kiln {

enum class Operand : std::uint8_t { a, b, c, d };

inline constexpr Operand kOperands[] = {Operand::a, Operand::b, Operand::c, Operand::d};

/// One stored matrix: `lines` runs of `length` neighbouring elements each, `ld` apart.
struct Extent {
  std::int64_t length = 0;
  std::int64_t lines = 0;
};

const Matrix& matrix(const Gemm& gemm, Operand which);
char letter(Operand which);
Extent extent(const Gemm& gemm, Operand which);

/// Elements between lines, with 0 resolved; at least 1.
std::int64_t leading_dimension(const Gemm& gemm, Operand which);
/// Elements between batches, with 0 resolved; at least 1. `gemm` must be valid.
std::int64_t batch_stride(const Gemm& gemm, Operand which);
/// Elements from the first of the first batch to one past the last of the last: what a buffer must
/// hold. 0 when the operand is empty. `gemm` must be valid.
std::int64_t span(const Gemm& gemm, Operand which);

}  // namespace kiln
