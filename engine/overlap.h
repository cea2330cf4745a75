// Whether two strided matrices in one address space share a byte. Pure arithmetic.
#pragma once

#include <cstdint>
#include <string_view>

#include "generator/problem/operand.h"

namespace kiln {

/// batch × lines runs of `width` bytes: run (b, i) starts at first + b·stride + i·pitch.
struct Bytes2d {
  std::int64_t first = 0;
  std::int64_t width = 0;
  std::int64_t lines = 1, pitch = 0;
  std::int64_t batch = 1, stride = 0;
};

/// Exact but for matrices of very many batches whose runs interleave with pitches and strides that
/// have no large common divisor: those are taken to be apart rather than refused.
bool share_bytes(const Bytes2d& x, const Bytes2d& y);

/// What an error adds about an operand that shares bytes with D. Only matrices could be taken for D
/// itself, which is said of them alone.
constexpr std::string_view why_not_in_d(Operand which) {
  return row_of(which).matrix ? ": only c may be d, laid out alike" : ", which is written";
}

}  // namespace kiln
