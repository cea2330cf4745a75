/// @file
/// The floating-point formats of eight bits and fewer: decoding, encoding and packing of codes.
/// Rounds to nearest, ties to even; denormals are kept. The reference for kernels and quantised
/// data.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace kiln {

/// Codes of a format that are not finite numbers.
enum class Specials : std::uint8_t {
  ieee,            ///< the top exponent holds infinity and NaNs
  nan_all_ones,    ///< one NaN of either sign, no infinity ("FN")
  nan_minus_zero,  ///< one NaN, at the code of −0; no infinity, no −0 ("FNUZ")
  none,            ///< every code is a number
};

/// Result for a number that rounds to more than the largest one, and for an infinity.
enum class Overflow : std::uint8_t {
  saturate,  ///< the largest number of its sign
  special,   ///< infinity where the format has it, else NaN, else the largest number
};

/// One format.
struct SmallFormat {
  std::string_view name;  ///< as in small_format()
  int bits;               ///< of one code
  int mantissa;           ///< bits of the mantissa, below the exponent
  int bias;               ///< of the exponent
  Specials specials;      ///< codes that are not finite numbers
  bool has_sign = true;   ///< the top bit is a sign
  bool has_zero = true;   ///< else the exponent's first code is a power of two like every other
  std::uint8_t largest;   ///< code of the largest number
  std::uint8_t nan;       ///< code of a NaN, or of what a NaN becomes where the format has none

  /// The sign's bit within a code; 0 without a sign.
  constexpr std::uint8_t sign_bit() const {
    return static_cast<std::uint8_t>(has_sign ? 1u << (bits - 1) : 0u);
  }
  /// Codes run from 0 to this.
  constexpr int last_code() const { return (1 << bits) - 1; }
};

/// @name The formats
/// OCP's 8-bit formats; gfx942's variants without −0 and infinity; OCP's formats of microscaled
/// blocks, which have no NaN (it becomes the largest number); and the scale of such a block.
/// @{

/// The format of this name.
inline constexpr SmallFormat kE4m3fn{.name = "e4m3fn",
                                     .bits = 8,
                                     .mantissa = 3,
                                     .bias = 7,
                                     .specials = Specials::nan_all_ones,
                                     .largest = 0x7e,
                                     .nan = 0x7f};
inline constexpr SmallFormat kE4m3fnuz{.name = "e4m3fnuz",
                                       .bits = 8,
                                       .mantissa = 3,
                                       .bias = 8,
                                       .specials = Specials::nan_minus_zero,
                                       .largest = 0x7f,
                                       .nan = 0x80};
inline constexpr SmallFormat kE5m2{.name = "e5m2",
                                   .bits = 8,
                                   .mantissa = 2,
                                   .bias = 15,
                                   .specials = Specials::ieee,
                                   .largest = 0x7b,
                                   .nan = 0x7f};
inline constexpr SmallFormat kE5m2fnuz{.name = "e5m2fnuz",
                                       .bits = 8,
                                       .mantissa = 2,
                                       .bias = 16,
                                       .specials = Specials::nan_minus_zero,
                                       .largest = 0x7f,
                                       .nan = 0x80};
inline constexpr SmallFormat kE2m3{.name = "e2m3",
                                   .bits = 6,
                                   .mantissa = 3,
                                   .bias = 1,
                                   .specials = Specials::none,
                                   .largest = 0x1f,
                                   .nan = 0x1f};
inline constexpr SmallFormat kE3m2{.name = "e3m2",
                                   .bits = 6,
                                   .mantissa = 2,
                                   .bias = 3,
                                   .specials = Specials::none,
                                   .largest = 0x1f,
                                   .nan = 0x1f};
inline constexpr SmallFormat kE2m1{.name = "e2m1",
                                   .bits = 4,
                                   .mantissa = 1,
                                   .bias = 1,
                                   .specials = Specials::none,
                                   .largest = 0x07,
                                   .nan = 0x07};
inline constexpr SmallFormat kE8m0{.name = "e8m0",
                                   .bits = 8,
                                   .mantissa = 0,
                                   .bias = 127,
                                   .specials = Specials::nan_all_ones,
                                   .has_sign = false,
                                   .has_zero = false,
                                   .largest = 0xfe,
                                   .nan = 0xff};

/// @}

/// All of them.
inline constexpr std::array kSmallFormats{kE4m3fn, kE4m3fnuz, kE5m2, kE5m2fnuz,
                                          kE2m3,   kE3m2,     kE2m1, kE8m0};

/// The format called `name`, or nothing.
constexpr std::optional<SmallFormat> small_format(std::string_view name) {
  for (const SmallFormat& f : kSmallFormats)
    if (f.name == name) return f;
  return std::nullopt;
}

/// 2^exponent for normal doubles, where std::ldexp is not a constant expression.
constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// Whether `code` is a NaN.
constexpr bool is_nan(const SmallFormat& f, std::uint8_t code) {
  const int magnitude = code & ~f.sign_bit() & f.last_code();
  switch (f.specials) {
    case Specials::ieee:
      return magnitude > f.largest + 1;
    case Specials::nan_all_ones:
      return magnitude > f.largest;
    case Specials::nan_minus_zero:
      return code == f.nan;
    case Specials::none:
      return false;
  }
  return false;
}

/// The number that `code` stands for, exactly.
constexpr float decode(const SmallFormat& f, std::uint8_t code) {
  if (is_nan(f, code)) return std::numeric_limits<float>::quiet_NaN();
  const double sign = (code & f.sign_bit()) != 0 ? -1.0 : 1.0;
  const int magnitude = code & ~f.sign_bit() & f.last_code();
  if (f.specials == Specials::ieee && magnitude > f.largest)
    return static_cast<float>(sign) * std::numeric_limits<float>::infinity();
  const int exponent = magnitude >> f.mantissa;
  const int fraction = magnitude & ((1 << f.mantissa) - 1);
  const bool denormal = f.has_zero && exponent == 0;
  const int whole = denormal ? fraction : fraction + (1 << f.mantissa);
  const int scale = (denormal ? 1 : exponent) - f.bias - f.mantissa;
  return static_cast<float>(sign * whole * power_of_two(scale));
}

/// The code of `value`. A format without a sign makes a NaN of what is below zero, one without zero
/// its smallest number of what is nearer to zero; halfway between two powers of two lies the larger
/// one, as in any arithmetic of one significant bit.
constexpr std::uint8_t encode(const SmallFormat& f, double value, Overflow overflow) {
  constexpr std::uint64_t kInfinity = std::uint64_t{0x7ff} << 52;
  const auto raw = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = raw & ~(std::uint64_t{1} << 63);
  const bool negative = raw != magnitude;
  if (magnitude > kInfinity || (negative && !f.has_sign && magnitude != 0)) return f.nan;
  const std::uint8_t sign = negative ? f.sign_bit() : std::uint8_t{0};

  // The exponent of the result, and the significand in units of its last place. A double's own
  // denormals lie far below half of any format's smallest number.
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  const int lowest = (f.has_zero ? 1 : 0) - f.bias;
  const int kept = std::max(exponent, lowest);
  const int dropped = 52 - f.mantissa + (kept - exponent);
  const std::uint64_t significand = (magnitude & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1}
                                                                                       << 52;
  std::uint64_t units = 0;
  if (dropped <= 54) {
    const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
    units = significand >> dropped;
    const std::uint64_t rest = significand & (2 * half - 1);
    if (rest > half || (rest == half && (units & 1) != 0)) ++units;
  }
  // The leading bit of a number that is not denormal carries into the exponent's field by itself.
  int code = ((kept - lowest) << f.mantissa) + static_cast<int>(units);
  if (!f.has_zero) code = std::max(code - 1, 0);
  if (magnitude == kInfinity || code > f.largest) {
    if (overflow == Overflow::saturate || f.specials == Specials::none)
      return static_cast<std::uint8_t>(sign | f.largest);
    if (f.specials == Specials::ieee) return static_cast<std::uint8_t>(sign | (f.largest + 1));
    return static_cast<std::uint8_t>(f.specials == Specials::nan_all_ones ? sign | f.nan : f.nan);
  }
  if (code == 0 && f.specials == Specials::nan_minus_zero) return 0;
  return static_cast<std::uint8_t>(sign | code);
}

/// Bytes that `count` codes take side by side, the first in the lowest bits of the first byte.
constexpr std::size_t packed_bytes(const SmallFormat& f, std::size_t count) {
  return (count * static_cast<std::size_t>(f.bits) + 7) / 8;
}

/// Lays codes side by side. `out` holds packed_bytes(f, codes.size()); bits past the last code
/// become zero.
constexpr void pack(const SmallFormat& f, std::span<const std::uint8_t> codes,
                    std::span<std::uint8_t> out) {
  assert(out.size() >= packed_bytes(f, codes.size()));
  std::fill(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(packed_bytes(f, codes.size())),
            std::uint8_t{0});
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t bit = i * static_cast<std::size_t>(f.bits);
    const unsigned wide = static_cast<unsigned>(codes[i] & f.last_code()) << (bit % 8);
    out[bit / 8] = static_cast<std::uint8_t>(out[bit / 8] | wide);
    if (wide > 0xff) out[bit / 8 + 1] = static_cast<std::uint8_t>(wide >> 8);
  }
}

/// Code number `index` of what pack() laid out.
constexpr std::uint8_t packed_code(const SmallFormat& f, std::span<const std::uint8_t> bytes,
                                   std::size_t index) {
  const std::size_t bit = index * static_cast<std::size_t>(f.bits);
  unsigned wide = bytes[bit / 8];
  if (bit % 8 + static_cast<std::size_t>(f.bits) > 8)
    wide |= static_cast<unsigned>(bytes[bit / 8 + 1]) << 8;
  return static_cast<std::uint8_t>(wide >> (bit % 8) & static_cast<unsigned>(f.last_code()));
}

}  // namespace kiln
