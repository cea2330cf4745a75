/// @file
/// Element types of matrices and accumulators: names and sizes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

/// Type of an element. The fp6 and fp4 types are for operands with block scales, s4, u4 and fp4 for
/// weights (Quantisation); elements of fewer than eight bits lie side by side without gaps, the
/// first one in the lowest bits of the first byte.
enum class DType : std::uint8_t {
  fp32,          ///< IEEE binary32
  fp64,          ///< IEEE binary64
  fp16,          ///< IEEE binary16
  bf16,          ///< bfloat16
  s8,            ///< signed byte
  u8,            ///< unsigned byte
  s32,           ///< signed 32-bit integer
  fp8_e4m3,      ///< OCP 8-bit float, no infinity
  fp8_e5m2,      ///< OCP 8-bit float
  tf32,          ///< fp32 in memory; matrix units use 10 bits of its mantissa
  fp8_e4m3fnuz,  ///< gfx942's e4m3: neither infinity nor −0
  fp8_e5m2fnuz,  ///< gfx942's e5m2: neither infinity nor −0
  fp6_e2m3,      ///< OCP 6-bit float
  fp6_e3m2,      ///< OCP 6-bit float
  fp4_e2m1,      ///< OCP 4-bit float
  s4,            ///< signed 4-bit integer, two's complement
  u4             ///< unsigned 4-bit integer
};

/// @name Short names of the types
/// @{

/// The enumerator of the same name.
inline constexpr DType fp32 = DType::fp32;
inline constexpr DType fp64 = DType::fp64;
inline constexpr DType fp16 = DType::fp16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType s8 = DType::s8;
inline constexpr DType u8 = DType::u8;
inline constexpr DType s32 = DType::s32;
inline constexpr DType fp8_e4m3 = DType::fp8_e4m3;
inline constexpr DType fp8_e5m2 = DType::fp8_e5m2;
inline constexpr DType tf32 = DType::tf32;
inline constexpr DType fp8_e4m3fnuz = DType::fp8_e4m3fnuz;
inline constexpr DType fp8_e5m2fnuz = DType::fp8_e5m2fnuz;
inline constexpr DType fp6_e2m3 = DType::fp6_e2m3;
inline constexpr DType fp6_e3m2 = DType::fp6_e3m2;
inline constexpr DType fp4_e2m1 = DType::fp4_e2m1;
inline constexpr DType s4 = DType::s4;
inline constexpr DType u4 = DType::u4;
/// @}

/// A type's name and size.
struct DTypeInfo {
  DType type;             ///< the type
  std::string_view name;  ///< as in a problem's text
  int bits;               ///< of one element
  bool floating;          ///< no integer
};

/// One row per type, in enum order.
inline constexpr std::array<DTypeInfo, 17> kDTypes{{
    {DType::fp32, "fp32", 32, true},
    {DType::fp64, "fp64", 64, true},
    {DType::fp16, "fp16", 16, true},
    {DType::bf16, "bf16", 16, true},
    {DType::s8, "s8", 8, false},
    {DType::u8, "u8", 8, false},
    {DType::s32, "s32", 32, false},
    {DType::fp8_e4m3, "fp8_e4m3", 8, true},
    {DType::fp8_e5m2, "fp8_e5m2", 8, true},
    {DType::tf32, "tf32", 32, true},
    {DType::fp8_e4m3fnuz, "fp8_e4m3fnuz", 8, true},
    {DType::fp8_e5m2fnuz, "fp8_e5m2fnuz", 8, true},
    {DType::fp6_e2m3, "fp6_e2m3", 6, true},
    {DType::fp6_e3m2, "fp6_e3m2", 6, true},
    {DType::fp4_e2m1, "fp4_e2m1", 4, true},
    {DType::s4, "s4", 4, false},
    {DType::u4, "u4", 4, false},
}};
static_assert([] {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (static_cast<std::size_t>(kDTypes[i].type) != i) return false;
  return true;
}());

/// The row of a type.
constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<std::size_t>(t)]; }
/// Bits of one element.
constexpr int bits_of(DType t) { return info(t).bits; }
/// Bytes of one element, rounded up to whole bytes.
constexpr int size_of(DType t) { return (info(t).bits + 7) / 8; }
/// Bytes of `count` neighbouring elements.
constexpr std::int64_t bytes_of(DType t, std::int64_t count) {
  const int bits = info(t).bits;
  return bits % 8 == 0 ? count * (bits / 8) : (count * bits + 7) / 8;
}
/// Smallest number of elements that fills whole bytes; rows and batches begin at multiples of it.
constexpr int elements_of_whole_bytes(DType t) {
  return info(t).bits >= 8 ? 1 : info(t).bits == 6 ? 4 : 2;
}
/// Name of a type, as in a problem's text.
constexpr std::string_view name(DType t) { return info(t).name; }
/// Whether the type is a floating-point one.
constexpr bool is_floating(DType t) { return info(t).floating; }

/// The type called `text` ("fp32", "bf16", …), or nothing.
constexpr std::optional<DType> dtype_from(std::string_view text) {
  for (const auto& row : kDTypes)
    if (row.name == text) return row.type;
  return std::nullopt;
}

}  // namespace kiln
