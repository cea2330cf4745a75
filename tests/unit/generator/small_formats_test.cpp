// The small formats against what their fields mean, and against LLVM's own numbers where LLVM is
// there and both define the same thing.
#include "kiln/small_formats.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#if KILN_TEST_HAS_LLVM
#include <llvm/ADT/APFloat.h>
#include <llvm/ADT/APInt.h>
#endif

namespace kiln::small_formats_test {

constexpr double kInf = std::numeric_limits<double>::infinity();

class Formats : public testing::TestWithParam<SmallFormat> {
 protected:
  const SmallFormat& f = GetParam();

  /// Codes of the numbers from zero (or the smallest) up.
  std::vector<std::uint8_t> upward() const {
    std::vector<std::uint8_t> codes;
    for (int code = 0; code <= f.largest; ++code) codes.push_back(static_cast<std::uint8_t>(code));
    return codes;
  }
};

TEST_P(Formats, NumbersGrowWithTheirCodes) {
  const auto codes = upward();
  for (std::size_t i = 1; i < codes.size(); ++i)
    EXPECT_LT(decode(f, codes[i - 1]), decode(f, codes[i])) << int(codes[i]);
  if (!f.has_sign) return;
  for (const std::uint8_t code : codes) {
    const auto negative = static_cast<std::uint8_t>(code | f.sign_bit());
    if (is_nan(f, negative)) continue;
    EXPECT_EQ(decode(f, negative), -decode(f, code)) << int(code);
  }
}

TEST_P(Formats, EveryNumberSurvivesTheRoundTrip) {
  for (int code = 0; code <= f.last_code(); ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const float value = decode(f, byte);
    EXPECT_EQ(std::isnan(value), is_nan(f, byte)) << code;
    if (std::isnan(value))
      EXPECT_TRUE(is_nan(f, encode(f, value, Overflow::saturate))) << code;
    else
      EXPECT_EQ(encode(f, value, Overflow::special), byte) << code;
  }
}

/// Rounding is monotone, so the two neighbours of every midpoint decide it for all between.
TEST_P(Formats, EveryGapRoundsToNearestEven) {
  const auto codes = upward();
  for (std::size_t i = 1; i < codes.size(); ++i) {
    const double low = decode(f, codes[i - 1]), high = decode(f, codes[i]);
    const double middle = low + (high - low) / 2;
    // One significant bit is always odd, so that a tie goes up.
    const bool up = !f.has_zero || codes[i - 1] % 2 == 1;
    for (const double sign : {1.0, -1.0}) {
      if (sign < 0 && !f.has_sign) continue;
      const auto code = [&](double x) { return decode(f, encode(f, sign * x, Overflow::special)); };
      EXPECT_EQ(code(std::nextafter(middle, 0.0)), sign * low) << low;
      EXPECT_EQ(code(middle), sign * (up ? high : low)) << low;
      EXPECT_EQ(code(std::nextafter(middle, kInf)), sign * high) << low;
    }
  }
}

TEST_P(Formats, OverflowIsAsAsked) {
  const double largest = decode(f, f.largest);
  for (const double sign : {1.0, -1.0}) {
    if (sign < 0 && !f.has_sign) continue;
    for (const double big : {largest * 2, 1e300, kInf}) {
      EXPECT_EQ(decode(f, encode(f, sign * big, Overflow::saturate)), sign * largest) << big;
      const float special = decode(f, encode(f, sign * big, Overflow::special));
      switch (f.specials) {
        case Specials::ieee:
          EXPECT_EQ(special, sign * kInf) << big;
          break;
        case Specials::none:
          EXPECT_EQ(special, sign * largest) << big;
          break;
        default:
          EXPECT_TRUE(std::isnan(special)) << big;
      }
    }
    EXPECT_EQ(decode(f, encode(f, std::nextafter(largest, kInf) * sign, Overflow::special)),
              sign * largest)
        << "not yet half a step beyond";
  }
}

TEST_P(Formats, PackedCodesComeBack) {
  std::mt19937 random(7);
  for (const std::size_t count : {0, 1, 2, 3, 4, 5, 31, 32, 33, 257}) {
    std::vector<std::uint8_t> codes(count), bytes(packed_bytes(f, count) + 1, 0xee);
    for (auto& code : codes) code = static_cast<std::uint8_t>(random() & f.last_code());
    pack(f, codes, bytes);
    EXPECT_EQ(bytes.back(), 0xee) << "a byte past the end";
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(packed_code(f, bytes, i), codes[i]) << i;
    for (std::size_t bit = count * f.bits; bit < packed_bytes(f, count) * 8; ++bit)
      EXPECT_EQ(bytes[bit / 8] >> (bit % 8) & 1, 0) << "left-over bits are zero";
  }
}

TEST_P(Formats, IsKnownByItsName) {
  ASSERT_TRUE(small_format(f.name).has_value());
  EXPECT_EQ(small_format(f.name)->bits, f.bits);
  EXPECT_FALSE(small_format(std::string(f.name) + "x"));
}

TEST(SmallFormats, KnownValues) {
  EXPECT_EQ(decode(kE4m3fn, kE4m3fn.largest), 448);
  EXPECT_EQ(decode(kE4m3fnuz, kE4m3fnuz.largest), 240);
  EXPECT_EQ(decode(kE5m2, kE5m2.largest), 57344);
  EXPECT_EQ(decode(kE5m2fnuz, kE5m2fnuz.largest), 57344);
  EXPECT_EQ(decode(kE2m3, kE2m3.largest), 7.5f);
  EXPECT_EQ(decode(kE3m2, kE3m2.largest), 28);
  EXPECT_EQ(decode(kE2m1, kE2m1.largest), 6);
  EXPECT_EQ(decode(kE8m0, 0), 0x1p-127f);
  EXPECT_EQ(decode(kE8m0, 127), 1);
  EXPECT_EQ(decode(kE8m0, kE8m0.largest), 0x1p127f);
  EXPECT_TRUE(std::isnan(decode(kE8m0, 255)));
  EXPECT_EQ(encode(kE4m3fnuz, -0.0, Overflow::special), 0) << "there is no −0";
  EXPECT_EQ(encode(kE4m3fn, -0.0, Overflow::special), 0x80);
  EXPECT_EQ(encode(kE8m0, -1.0, Overflow::special), 255) << "there is no sign";
  EXPECT_EQ(encode(kE8m0, 0.0, Overflow::special), 0) << "there is no zero";
  // The first code of a byte lies in its low bits.
  std::uint8_t bytes[3];
  pack(kE2m1, std::vector<std::uint8_t>{1, 2, 3}, bytes);
  EXPECT_EQ(bytes[0], 0x21);
  EXPECT_EQ(bytes[1], 0x03);
  pack(kE2m3, std::vector<std::uint8_t>{0x3f, 0, 0, 0x3f}, bytes);
  EXPECT_EQ(bytes[0], 0x3f);
  EXPECT_EQ(bytes[1], 0);
  EXPECT_EQ(bytes[2], 0xfc);
}

#if KILN_TEST_HAS_LLVM
const llvm::fltSemantics& semantics(const SmallFormat& f) {
  if (f.name == "e4m3fn") return llvm::APFloat::Float8E4M3FN();
  if (f.name == "e4m3fnuz") return llvm::APFloat::Float8E4M3FNUZ();
  if (f.name == "e5m2") return llvm::APFloat::Float8E5M2();
  if (f.name == "e5m2fnuz") return llvm::APFloat::Float8E5M2FNUZ();
  if (f.name == "e2m3") return llvm::APFloat::Float6E2M3FN();
  if (f.name == "e3m2") return llvm::APFloat::Float6E3M2FN();
  if (f.name == "e2m1") return llvm::APFloat::Float4E2M1FN();
  return llvm::APFloat::Float8E8M0FNU();
}

float llvm_decode(const SmallFormat& f, std::uint8_t code) {
  llvm::APFloat number(semantics(f), llvm::APInt(f.bits, code));
  // Converted to single precision, the NaN of e8m0 would become an infinity.
  if (number.isNaN()) return std::numeric_limits<float>::quiet_NaN();
  bool loses = false;
  number.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &loses);
  return number.convertToFloat();
}

std::uint8_t llvm_encode(const SmallFormat& f, float value) {
  llvm::APFloat number(value);
  bool loses = false;
  number.convert(semantics(f), llvm::APFloat::rmNearestTiesToEven, &loses);
  return static_cast<std::uint8_t>(number.bitcastToAPInt().getZExtValue());
}

TEST_P(Formats, CodesMeanWhatLlvmSays) {
  for (int code = 0; code <= f.last_code(); ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const float ours = decode(f, byte), theirs = llvm_decode(f, byte);
    if (std::isnan(theirs)) {
      EXPECT_TRUE(std::isnan(ours)) << code;
    } else {
      EXPECT_EQ(ours, theirs) << code;
      EXPECT_EQ(std::signbit(ours), std::signbit(theirs)) << code;
    }
  }
}

/// Every sign, exponent and leading 12 bits of mantissa of a float, with and without a sticky last
/// bit: past overflow the two definitions part, and so do those of NaN, zero and signs where the
/// format lacks them.
TEST_P(Formats, FloatsRoundAsLlvmRounds) {
  const float largest = decode(f, f.largest);
  std::int64_t compared = 0;
  for (std::uint64_t high = 0; high < (1u << 21); ++high)
    for (const std::uint32_t sticky : {0u, 1u}) {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(high << 11) | sticky);
      if (!(std::fabs(value) <= largest)) continue;
      if (!f.has_sign && !(value >= 0x1p-127f)) continue;
      ++compared;
      ASSERT_EQ(encode(f, value, Overflow::special), llvm_encode(f, value)) << value;
    }
  EXPECT_GT(compared, 1 << 18);
}
#endif

INSTANTIATE_TEST_SUITE_P(All, Formats, testing::ValuesIn(kSmallFormats),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace kiln::small_formats_test
