/// @file
/// Elements of matrices as numbers: bf16, fp16, fp8, fp6, fp4 and tf32 to and from float, int8 with
/// saturation. Rounds to nearest, ties to even; NaN stays NaN, overflow becomes infinity (in the
/// small types that have none, the largest value), denormals are kept. Kernels are verified against
/// these functions, except where an instruction flushes denormals (vdpbf16ps and tdpbf16ps take
/// denormal bf16 factors and results for zero).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kiln/dtype.hpp"
#include "kiln/small_formats.hpp"

namespace kiln {

/// Exact.
constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The nearest bf16.
constexpr std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // Truncating a NaN could leave no mantissa bit, which is infinity: keep it quiet.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// Exact.
constexpr float fp16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    // Denormal: mantissa · 2⁻²⁴, exact in float.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 0x1fu ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

/// The nearest fp16.
constexpr std::uint16_t float_to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  // 65520 lies halfway between the largest finite value and 2¹⁶, whose mantissa is even.
  if (magnitude >= std::bit_cast<std::uint32_t>(65520.0f))
    return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude >= std::bit_cast<std::uint32_t>(0x1p-14f)) {
    const std::uint32_t rebiased = magnitude - (std::uint32_t{127 - 15} << 23);
    return static_cast<std::uint16_t>(sign | (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13);
  }
  // Denormal: at 0.5 a float's last place is 2⁻²⁴, so the addition itself rounds.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
}

/// The format that fp8_e4m3 has.
inline constexpr SmallFormat kE4m3 = kE4m3fn;

/// The format of a type of eight bits or fewer.
constexpr const SmallFormat& small_format_of(DType type) {
  switch (type) {
    case DType::fp8_e5m2:
      return kE5m2;
    case DType::fp8_e4m3fnuz:
      return kE4m3fnuz;
    case DType::fp8_e5m2fnuz:
      return kE5m2fnuz;
    case DType::fp6_e2m3:
      return kE2m3;
    case DType::fp6_e3m2:
      return kE3m2;
    case DType::fp4_e2m1:
      return kE2m1;
    default:
      return kE4m3;
  }
}

/// Exact.
inline float fp8_to_float(const SmallFormat& f, std::uint8_t bits) { return decode(f, bits); }

/// The nearest code.
inline std::uint8_t float_to_fp8(const SmallFormat& f, float value) {
  return encode(f, value, f.specials == Specials::ieee ? Overflow::special : Overflow::saturate);
}

/// fp32 rounded to tf32's 10 bits of mantissa.
constexpr float round_to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return std::bit_cast<float>((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}

/// Rounds to nearest even and saturates to the type's range; NaN becomes 0.
template <typename Integer>
inline Integer saturate(double value) {
  if (std::isnan(value)) return 0;
  constexpr double low = std::numeric_limits<Integer>::min();
  constexpr double high = std::numeric_limits<Integer>::max();
  return static_cast<Integer>(std::clamp(std::nearbyint(value), low, high));
}

/// Code number `index` of what small_formats.hpp's pack() laid out.
inline std::uint8_t load_code(const SmallFormat& f, const void* data, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  return packed_code(f, {static_cast<const std::uint8_t*>(data), packed_bytes(f, at + 1)}, at);
}

/// Stores code number `index` of what pack() laid out; its neighbours keep their bits.
inline void store_code(const SmallFormat& f, void* data, std::int64_t index, std::uint8_t code) {
  const std::int64_t bit = index * f.bits;
  auto* at = static_cast<unsigned char*>(data) + bit / 8;
  const int within = static_cast<int>(bit % 8);
  const unsigned mask = static_cast<unsigned>(f.last_code()) << within;
  const unsigned wide = static_cast<unsigned>(code) << within;
  at[0] = static_cast<unsigned char>((at[0] & ~mask) | wide);
  if (mask > 0xff) at[1] = static_cast<unsigned char>((at[1] & ~(mask >> 8)) | wide >> 8);
}

/// Integer number `index` of four bits each, the first in the low half of its byte.
inline int load_nibble(DType type, const void* data, std::int64_t index) {
  const auto at = static_cast<std::uint64_t>(index);
  const int code = static_cast<const unsigned char*>(data)[at / 2] >> (at % 2 * 4) & 15;
  return type == DType::s4 ? (code ^ 8) - 8 : code;
}

/// Stores what load_nibble() reads; its neighbour keeps its bits.
inline void store_nibble(DType type, void* data, std::int64_t index, double value) {
  const double low = type == DType::s4 ? -8 : 0;
  const long whole = std::isnan(value) ? 0 : std::lrint(std::clamp(value, low, low + 15));
  const auto at = static_cast<std::uint64_t>(index);
  const int shift = static_cast<int>(at % 2 * 4);
  unsigned char& byte = static_cast<unsigned char*>(data)[at / 2];
  byte = static_cast<unsigned char>((byte & ~(15u << shift)) | (static_cast<unsigned>(whole) & 15u)
                                                                   << shift);
}

/// Element `index` of an array of `type`, exactly.
inline double load_element(DType type, const void* data, std::int64_t index) {
  if (type == DType::s4 || type == DType::u4) return load_nibble(type, data, index);
  if (bits_of(type) < 8)
    return decode(small_format_of(type), load_code(small_format_of(type), data, index));
  const auto* at = static_cast<const unsigned char*>(data) + index * size_of(type);
  const auto as = [at]<typename T>(T value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (type) {
    case DType::fp32:
      return as(float{});
    case DType::fp64:
      return as(double{});
    case DType::fp16:
      return fp16_to_float(as(std::uint16_t{}));
    case DType::bf16:
      return bf16_to_float(as(std::uint16_t{}));
    case DType::s8:
      return as(std::int8_t{});
    case DType::u8:
      return as(std::uint8_t{});
    case DType::s32:
      return as(std::int32_t{});
    case DType::fp8_e4m3:
    case DType::fp8_e5m2:
    case DType::fp8_e4m3fnuz:
    case DType::fp8_e5m2fnuz:
      return fp8_to_float(small_format_of(type), as(std::uint8_t{}));
    case DType::tf32:
      return as(float{});
    case DType::fp6_e2m3:
    case DType::fp6_e3m2:
    case DType::fp4_e2m1:
    case DType::s4:
    case DType::u4:
      break;
  }
  std::abort();  // no type at all
}

/// Stores `value` as element `index`, rounded. To the 16-bit types it goes through float, as
/// kernels with a float accumulator do.
inline void store_element(DType type, void* data, std::int64_t index, double value) {
  if (type == DType::s4 || type == DType::u4) return store_nibble(type, data, index, value);
  if (bits_of(type) < 8) {
    const SmallFormat& f = small_format_of(type);
    return store_code(f, data, index, float_to_fp8(f, static_cast<float>(value)));
  }
  auto* at = static_cast<unsigned char*>(data) + index * size_of(type);
  const auto put = [at](auto element) { std::memcpy(at, &element, sizeof(element)); };
  switch (type) {
    case DType::fp32:
      return put(static_cast<float>(value));
    case DType::fp64:
      return put(value);
    case DType::fp16:
      return put(float_to_fp16(static_cast<float>(value)));
    case DType::bf16:
      return put(float_to_bf16(static_cast<float>(value)));
    case DType::s8:
      return put(saturate<std::int8_t>(value));
    case DType::u8:
      return put(saturate<std::uint8_t>(value));
    case DType::s32:
      return put(saturate<std::int32_t>(value));
    case DType::fp8_e4m3:
    case DType::fp8_e5m2:
    case DType::fp8_e4m3fnuz:
    case DType::fp8_e5m2fnuz:
      return put(float_to_fp8(small_format_of(type), static_cast<float>(value)));
    case DType::tf32:
      return put(round_to_tf32(static_cast<float>(value)));
    case DType::fp6_e2m3:
    case DType::fp6_e3m2:
    case DType::fp4_e2m1:
    case DType::s4:
    case DType::u4:
      break;
  }
}

}  // namespace kiln
