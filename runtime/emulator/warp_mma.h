// What the name of a warp's matrix instruction says. Knows no registers and no memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace kiln::emu {

struct MmaShape {
  enum class Type : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, s8, u8, f64 };
  int m = 0, n = 8, k = 0;
  Type a = Type::bf16, b = Type::bf16;
  int sm = 0;  // the first that has it

  bool wide() const { return a == Type::f64; }
  bool integer() const { return a == Type::s8 || a == Type::u8; }
  int element_bytes() const;
  /// Elements in one register.
  int packed() const { return element_bytes() >= 4 ? 1 : 4 / element_bytes(); }
};
/// Nothing when the instruction is not one that the machine knows.
bool parse_mma(std::string_view name, MmaShape& shape);

}  // namespace kiln::emu
