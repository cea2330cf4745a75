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

/// What a buffer of the operand must hold, in bytes.
std::int64_t span_bytes(const Gemm& gemm, Operand which);

/// How many elements share a scale of one kind: `lines` of them × `along` elements of k; 0 stands
/// for all of k.
struct ScaleBlock {
  int lines = 1, along = 0;
};
constexpr ScaleBlock scale_block(Scale s) {
  switch (s) {
    case Scale::line_128:
      return {1, 128};
    case Scale::square_128:
      return {128, 128};
    case Scale::mx_32:
      return {1, 32};
    default:
      return {};
  }
}
constexpr bool blocks_along_k(Scale s) { return scale_block(s).along > 0; }

/// Of A or B, the only operands that have scales.
Scale scale_of(const Gemm& gemm, Operand which);
/// One batch of an operand's scales: `lines` runs of `length` each, tight; nothing without scales.
Extent scale_extent(const Gemm& gemm, Operand which);
constexpr int scale_size(Scale s) { return s == Scale::none ? 0 : s == Scale::mx_32 ? 1 : 4; }
/// Of all batches.
std::int64_t scale_bytes(const Gemm& gemm, Operand which);

/// The largest power of two, up to the 16 bytes that GPU kernels have a use for, that divides every
/// pitch and stride: the alignment of a problem whose addresses are all aligned.
int natural_alignment(const Gemm& gemm);

}  // namespace kiln
