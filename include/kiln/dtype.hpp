// Element types of matrices and accumulators. Knows names, sizes and nothing of problems or
// devices.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

enum class DType : std::uint8_t { fp32, fp64, fp16, bf16, s8, u8, s32 };

inline constexpr DType fp32 = DType::fp32;
inline constexpr DType fp64 = DType::fp64;
inline constexpr DType fp16 = DType::fp16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType s8 = DType::s8;
inline constexpr DType u8 = DType::u8;
inline constexpr DType s32 = DType::s32;

struct DTypeInfo {
  DType type;
  std::string_view name;
  int bytes;
  bool floating;
};

/// One row per type, in enum order.
inline constexpr std::array<DTypeInfo, 7> kDTypes{{
    {DType::fp32, "fp32", 4, true},
    {DType::fp64, "fp64", 8, true},
    {DType::fp16, "fp16", 2, true},
    {DType::bf16, "bf16", 2, true},
    {DType::s8, "s8", 1, false},
    {DType::u8, "u8", 1, false},
    {DType::s32, "s32", 4, false},
}};
static_assert([] {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (static_cast<std::size_t>(kDTypes[i].type) != i) return false;
  return true;
}());

constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<std::size_t>(t)]; }
/// Size of one element in bytes.
constexpr int size_of(DType t) { return info(t).bytes; }
constexpr std::string_view name(DType t) { return info(t).name; }
constexpr bool is_floating(DType t) { return info(t).floating; }

/// The type called `text` ("fp32", "bf16", …), or nothing.
constexpr std::optional<DType> dtype_from(std::string_view text) {
  for (const auto& row : kDTypes)
    if (row.name == text) return row.type;
  return std::nullopt;
}

}  // namespace kiln
