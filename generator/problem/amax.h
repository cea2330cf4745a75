// The largest magnitude of D (Gemm::amax_d) as the bits of an fp32 without its sign: they are
// ordered as the magnitudes are, and those of a NaN are larger than all others. Pure.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kiln {

/// Of a value before it is rounded to D's type.
inline std::uint32_t magnitude_bits(double value) {
  return std::bit_cast<std::uint32_t>(std::fabs(static_cast<float>(value)));
}

}  // namespace kiln
