// The shared exponent of a block of 32 numbers, as OCP's MX specification has it. Knows no blocks.
#pragma once

#include <algorithm>
#include <cmath>

#include "kiln/small_formats.hpp"

namespace kiln {

/// The e8m0 of a block of codes of `f` whose largest magnitude is `largest`, finite: exponents of
/// the largest numbers coincide.
inline std::uint8_t mx_scale(const SmallFormat& f, double largest) {
  if (largest == 0) return static_cast<std::uint8_t>(kE8m0.bias);
  const int exponent = std::ilogb(largest) - std::ilogb(decode(f, f.largest));
  return static_cast<std::uint8_t>(
      std::clamp(exponent + kE8m0.bias, 0, static_cast<int>(kE8m0.largest)));
}

}  // namespace kiln
