// What a matrix instruction of AMD's must give, worked out from the recorded layout of its operands
// and from the formats' definitions alone: nothing of what the emulator or the kernels use.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "support/mfma_layouts.h"

namespace kiln::test {

/// A floating format: sign, exponent, mantissa; or 8-bit integers.
struct MfmaFormat {
  enum class Specials { none, ieee, one_nan, negative_zero_nan, integer };
  int bits, mantissa, bias;
  Specials specials;

  int exponent_bits() const { return bits - 1 - mantissa; }
  bool integer() const { return specials == Specials::integer; }
};

/// By the names that instructions have for them.
inline const MfmaFormat& mfma_format(const std::string& name, bool fnuz) {
  using S = MfmaFormat::Specials;
  static const std::map<std::string, MfmaFormat> all{{"f64", {64, 52, 1023, S::ieee}},
                                                     {"f32", {32, 23, 127, S::ieee}},
                                                     {"xf32", {32, 23, 127, S::ieee}},
                                                     {"f16", {16, 10, 15, S::ieee}},
                                                     {"bf16", {16, 7, 127, S::ieee}},
                                                     {"fp8", {8, 3, 7, S::one_nan}},
                                                     {"bf8", {8, 2, 15, S::ieee}},
                                                     {"fp6", {6, 3, 1, S::none}},
                                                     {"bf6", {6, 2, 3, S::none}},
                                                     {"fp4", {4, 1, 1, S::none}},
                                                     {"fp8z", {8, 3, 8, S::negative_zero_nan}},
                                                     {"bf8z", {8, 2, 16, S::negative_zero_nan}},
                                                     {"i8", {8, 0, 0, S::integer}}};
  return all.at(fnuz && name.ends_with("p8") ? "fp8z" : fnuz && name == "bf8" ? "bf8z" : name);
}

/// The value of a code, by the format's definition.
inline long double mfma_value(const MfmaFormat& f, std::uint64_t code) {
  using S = MfmaFormat::Specials;
  if (f.integer()) return static_cast<std::int8_t>(code);
  const std::uint64_t one = 1;
  const auto mantissa = code & ((one << f.mantissa) - 1);
  const int top = (1 << f.exponent_bits()) - 1;
  const int exponent = static_cast<int>(code >> f.mantissa) & top;
  const bool negative = code >> (f.bits - 1) & 1;
  constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();
  if (f.specials == S::ieee && exponent == top)
    return mantissa != 0 ? kNan : negative ? -INFINITY : INFINITY;
  if (f.specials == S::one_nan && exponent == top && mantissa == (one << f.mantissa) - 1)
    return kNan;
  if (f.specials == S::negative_zero_nan && negative && exponent == 0 && mantissa == 0) return kNan;
  const auto digits =
      static_cast<long double>(exponent == 0 ? mantissa : mantissa | one << f.mantissa);
  const auto size = std::ldexp(digits, (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa);
  return negative ? -size : size;
}

/// fp32 with 10 bits of mantissa, to nearest even.
inline long double mfma_xf32(long double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), -126);
  const long double rounded =
      std::ldexp(std::nearbyint(std::ldexp(x, 10 - exponent)), exponent - 10);
  return std::fabs(rounded) >= 0x1p128L ? std::copysign(INFINITY, x) : rounded;
}

/// Where an element lies. A scale's `block` is the byte that the instruction selects.
struct MfmaEntry {
  int block, i, j, k;
  int lane, bit, bits;
};

/// One recorded file.
struct MfmaTable {
  std::map<std::string, std::vector<MfmaEntry>> entries;  // by matrix: A, B, C, D, SA, SB
  int mn = 0, k = 0, blocks = 0;

  explicit MfmaTable(const std::string& text) {
    const auto number = [](const std::string& s) { return s.empty() ? 0 : std::stoi(s); };
    for (const auto& r : csv_rows(text)) {
      const MfmaEntry e{number(r[1]),
                        number(r[2]),
                        number(r[3]),
                        number(r[4]),
                        number(r[5]),
                        number(r[6]),
                        number(r[7]) - number(r[6]) + 1};
      entries[r[0]].push_back(e);
      if (r[0] != "A") continue;
      k = std::max(k, e.k + 1);
      mn = std::max(mn, e.i + 1);
      blocks = std::max(blocks, e.block + 1);
    }
  }
};

/// The registers of a wave's lanes; 32 of them, as the widest operand has.
using MfmaRegisters = std::array<std::array<std::uint32_t, 32>, 64>;

inline std::uint64_t get_bits(const MfmaRegisters& r, int lane, int bit, int bits) {
  std::uint64_t out = 0;
  for (int i = 0; i < bits; ++i) {
    const auto word = r[static_cast<std::size_t>(lane)][static_cast<std::size_t>((bit + i) / 32)];
    out |= static_cast<std::uint64_t>(word >> (bit + i) % 32 & 1) << i;
  }
  return out;
}

inline void put_bits(MfmaRegisters& r, int lane, int bit, int bits, std::uint64_t value) {
  for (int i = 0; i < bits; ++i) {
    auto& word = r[static_cast<std::size_t>(lane)][static_cast<std::size_t>((bit + i) / 32)];
    const std::uint32_t mask = 1u << (bit + i) % 32;
    word = (value >> i & 1) != 0 ? word | mask : word & ~mask;
  }
}

/// What one instruction is given.
struct MfmaInputs {
  MfmaRegisters a{}, b{}, c{}, scale_a{}, scale_b{};
  bool scaled = false;
  int select_a = 0, select_b = 0;
};

struct MfmaFormats {
  MfmaFormat a, b, sum;
  bool xf32 = false;
};

/// One element of the sums: its value and the sum of all terms' sizes.
struct MfmaExpected {
  MfmaEntry at;
  long double value, size;
};

/// One operand as numbers, scales applied, by (block, row or column, k).
inline std::vector<long double> mfma_operand(const MfmaTable& t, const MfmaInputs& in, bool is_a,
                                             const MfmaFormats& f) {
  const auto place = [&](int block, int line, int k) {
    return static_cast<std::size_t>((block * t.mn + line) * t.k + k);
  };
  std::vector<long double> out(static_cast<std::size_t>(t.blocks * t.mn * t.k), NAN);
  for (const MfmaEntry& e : t.entries.at(is_a ? "A" : "B")) {
    const long double x =
        mfma_value(is_a ? f.a : f.b, get_bits(is_a ? in.a : in.b, e.lane, e.bit, e.bits));
    out[place(e.block, is_a ? e.i : e.j, e.k)] = f.xf32 ? mfma_xf32(x) : x;
  }
  if (!in.scaled) return out;
  for (const MfmaEntry& e : t.entries.at(is_a ? "SA" : "SB")) {
    if (e.block != (is_a ? in.select_a : in.select_b)) continue;
    const auto code =
        static_cast<int>(get_bits(is_a ? in.scale_a : in.scale_b, e.lane, e.bit, e.bits));
    const long double scale = code == 255 ? NAN : std::ldexp(1.0L, code - 127);
    for (int k = 32 * e.k; k < 32 * e.k + 32; ++k) out[place(0, is_a ? e.i : e.j, k)] *= scale;
  }
  return out;
}

inline std::vector<MfmaExpected> mfma_expected(const MfmaTable& t, const MfmaInputs& in,
                                               const MfmaFormats& f) {
  const auto a = mfma_operand(t, in, true, f), b = mfma_operand(t, in, false, f);
  std::map<std::array<int, 3>, long double> before;
  const auto sum_value = [&](std::uint64_t code) -> long double {
    return f.sum.integer() ? static_cast<std::int32_t>(code) : mfma_value(f.sum, code);
  };
  for (const MfmaEntry& e : t.entries.at("C"))
    before[{e.block, e.i, e.j}] = sum_value(get_bits(in.c, e.lane, e.bit, e.bits));
  std::vector<MfmaExpected> out;
  for (const MfmaEntry& e : t.entries.at("D")) {
    long double sum = before.at({e.block, e.i, e.j}), size = std::fabs(sum);
    for (int k = 0; k < t.k; ++k) {
      const long double term = a[static_cast<std::size_t>((e.block * t.mn + e.i) * t.k + k)] *
                               b[static_cast<std::size_t>((e.block * t.mn + e.j) * t.k + k)];
      sum += term;
      size += std::fabs(term);
    }
    out.push_back({e, sum, size});
  }
  return out;
}

}  // namespace kiln::test
