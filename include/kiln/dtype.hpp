// Element types of matrices and accumulators. Knows names, sizes and nothing of problems or
// devices.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

/// `tf32` is fp32 in memory whose products see only 10 bits of mantissa: what a GPU's matrix units
/// make of fp32 when they are allowed to. The fp8 types are the OCP ones, of
/// which e4m3 has no infinity; those called fnuz, gfx942's own, have neither infinity nor −0. The
/// fp6 and fp4 types are OCP's, for operands with block scales; they lie side by side without gaps,
/// the first element in the lowest bits of the first byte.
enum class DType : std::uint8_t {
  fp32,
  fp64,
  fp16,
  bf16,
  s8,
  u8,
  s32,
  fp8_e4m3,
  fp8_e5m2,
  tf32,
  fp8_e4m3fnuz,
  fp8_e5m2fnuz,
  fp6_e2m3,
  fp6_e3m2,
  fp4_e2m1
};

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

struct DTypeInfo {
  DType type;
  std::string_view name;
  int bits;
  bool floating;
};

/// One row per type, in enum order.
inline constexpr std::array<DTypeInfo, 15> kDTypes{{
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
}};
static_assert([] {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (static_cast<std::size_t>(kDTypes[i].type) != i) return false;
  return true;
}());

constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<std::size_t>(t)]; }
constexpr int bits_of(DType t) { return info(t).bits; }
/// Size of one element in bytes; of those shorter than a byte, of one that lies alone.
constexpr int size_of(DType t) { return (info(t).bits + 7) / 8; }
/// What `count` neighbouring elements take.
constexpr std::int64_t bytes_of(DType t, std::int64_t count) {
  const int bits = info(t).bits;
  return bits % 8 == 0 ? count * (bits / 8) : (count * bits + 7) / 8;
}
/// Least count of elements that fills whole bytes: lines and batches begin at multiples of it.
constexpr int elements_of_whole_bytes(DType t) {
  return info(t).bits >= 8 ? 1 : info(t).bits == 6 ? 4 : 2;
}
constexpr std::string_view name(DType t) { return info(t).name; }
constexpr bool is_floating(DType t) { return info(t).floating; }

/// The type called `text` ("fp32", "bf16", …), or nothing.
constexpr std::optional<DType> dtype_from(std::string_view text) {
  for (const auto& row : kDTypes)
    if (row.name == text) return row.type;
  return std::nullopt;
}

}  // namespace kiln
