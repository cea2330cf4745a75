#include "kiln/numeric.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kiln::numeric_test {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// The value of a small float, from the meaning of its fields.
double value_of(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const auto exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
}

struct Format {
  const char* name;
  int exponent_bits, mantissa_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
};

class SmallFloat : public testing::TestWithParam<Format> {};

TEST_P(SmallFloat, EveryValueWidensToWhatItsFieldsMean) {
  const Format& f = GetParam();
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const double expected = value_of(bits, f.exponent_bits, f.mantissa_bits);
    const float got = f.widen(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(got, expected) << bits;
      ASSERT_EQ(std::signbit(got), bits >> 15 != 0) << bits;
    }
  }
}

TEST_P(SmallFloat, EveryValueSurvivesTheRoundTrip) {
  const Format& f = GetParam();
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const std::uint16_t back = f.narrow(f.widen(narrow));
    if (std::isnan(f.widen(narrow)))
      ASSERT_TRUE(std::isnan(f.widen(back))) << bits;
    else
      ASSERT_EQ(back, bits);
  }
}

/// Rounding is monotone, so the two neighbours of every midpoint decide it for all floats between.
TEST_P(SmallFloat, EveryGapRoundsToNearestEven) {
  const Format& f = GetParam();
  const std::uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    const double low = value_of(bits, f.exponent_bits, f.mantissa_bits);
    // Past the largest finite value lies the next power of two, which is stored as infinity.
    const double high = bits + 1 < infinity ? value_of(bits + 1, f.exponent_bits, f.mantissa_bits)
                                            : std::ldexp(1.0, 1 << (f.exponent_bits - 1));
    const auto middle = static_cast<float>(low + (high - low) / 2);
    ASSERT_EQ(middle, low + (high - low) / 2);
    for (int sign : {0, 0x8000}) {
      const float s = sign != 0 ? -1.0f : 1.0f;
      ASSERT_EQ(f.narrow(s * std::nextafter(middle, 0.0f)), bits | sign) << bits;
      ASSERT_EQ(f.narrow(s * middle), (bits + (bits & 1)) | sign) << bits;
      ASSERT_EQ(f.narrow(s * std::nextafter(middle, kInf)), (bits + 1) | sign) << bits;
    }
  }
}

TEST_P(SmallFloat, SpecialValuesStaySpecial) {
  const Format& f = GetParam();
  EXPECT_EQ(f.widen(f.narrow(kInf)), kInf);
  EXPECT_EQ(f.widen(f.narrow(-kInf)), -kInf);
  EXPECT_EQ(f.widen(f.narrow(std::numeric_limits<float>::max())), kInf);
  EXPECT_EQ(f.narrow(-0.0f), 0x8000);
  EXPECT_EQ(f.narrow(std::numeric_limits<float>::denorm_min()), 0);
  // NaNs whose payload lies only in bits that are cut off, both signs.
  for (std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu, 0xffffffffu})
    EXPECT_TRUE(std::isnan(f.widen(f.narrow(std::bit_cast<float>(bits))))) << std::hex << bits;
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloat,
                         testing::Values(Format{"bf16", 8, 7, bf16_to_float, float_to_bf16},
                                         Format{"fp16", 5, 10, fp16_to_float, float_to_fp16}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Saturate, RoundsToNearestEvenAndStopsAtTheEnds) {
  EXPECT_EQ(saturate<std::int8_t>(0.5), 0);
  EXPECT_EQ(saturate<std::int8_t>(1.5), 2);
  EXPECT_EQ(saturate<std::int8_t>(2.5), 2);
  EXPECT_EQ(saturate<std::int8_t>(-2.5), -2);
  EXPECT_EQ(saturate<std::int8_t>(127.5), 127);
  EXPECT_EQ(saturate<std::int8_t>(1e30), 127);
  EXPECT_EQ(saturate<std::int8_t>(-1e30), -128);
  EXPECT_EQ(saturate<std::int8_t>(-kInf), -128);
  EXPECT_EQ(saturate<std::uint8_t>(-3), 0);
  EXPECT_EQ(saturate<std::uint8_t>(254.6), 255);
  EXPECT_EQ(saturate<std::int32_t>(3e9), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(saturate<std::int8_t>(std::nan("")), 0);
}

TEST(Fp8, EveryCodeSurvivesTheWayThroughFloat) {
  for (const SmallFormat& format : {kE4m3, kE5m2}) {
    int nans = 0;
    for (int bits = 0; bits < 256; ++bits) {
      const float value = fp8_to_float(format, static_cast<std::uint8_t>(bits));
      nans += std::isnan(value);
      if (!std::isnan(value)) {
        EXPECT_EQ(float_to_fp8(format, value), bits);
      }
    }
    EXPECT_EQ(nans, format.specials == Specials::ieee ? 6 : 2);
  }
  EXPECT_EQ(fp8_to_float(kE4m3, 0x7e), 448);
  EXPECT_EQ(fp8_to_float(kE4m3, 0x01), 0x1p-9f);
  EXPECT_EQ(fp8_to_float(kE5m2, 0x7b), 57344);
  EXPECT_EQ(fp8_to_float(kE5m2, 0x01), 0x1p-16f);
}

TEST(Fp8, RoundsToNearestEvenAndEndsAtItsOwnLimit) {
  const auto e4m3 = [](float x) { return fp8_to_float(kE4m3, float_to_fp8(kE4m3, x)); };
  EXPECT_EQ(e4m3(17), 16);
  EXPECT_EQ(e4m3(19), 20);
  EXPECT_EQ(e4m3(-1.0625f), -1);
  EXPECT_EQ(e4m3(15.9f), 16) << "carries into the exponent";
  EXPECT_EQ(e4m3(0x1p-10f), 0) << "half of the smallest goes to even";
  EXPECT_EQ(e4m3(1e9f), 448);
  EXPECT_EQ(e4m3(-static_cast<float>(kInf)), -448);
  EXPECT_TRUE(std::isnan(e4m3(std::nanf(""))));
  EXPECT_EQ(fp8_to_float(kE5m2, float_to_fp8(kE5m2, 1e9f)), kInf);
  EXPECT_EQ(fp8_to_float(kE5m2, float_to_fp8(kE5m2, 61439)), 57344);
}

TEST(Tf32, KeepsTenBits) {
  EXPECT_EQ(round_to_tf32(1 + 0x1p-10f), 1 + 0x1p-10f);
  EXPECT_EQ(round_to_tf32(1 + 0x1p-11f), 1);
  EXPECT_EQ(round_to_tf32(1 + 0x1.8p-10f), 1 + 0x1p-9f);
  EXPECT_TRUE(std::isnan(round_to_tf32(std::nanf(""))));
  EXPECT_EQ(round_to_tf32(static_cast<float>(kInf)), kInf);
}

TEST(Element, EveryTypeStoresAndLoadsItsOwn) {
  for (const DTypeInfo& type : kDTypes) {
    alignas(8) unsigned char bytes[3 * 8 + 1] = {};
    for (int offset : {0, 1}) {  // no alignment is promised
      const double first = type.bits < 8 ? 6 : 7;
      store_element(type.type, bytes + offset, 0, first);
      const double second = type.bits < 8 ? 4 : 40;
      store_element(type.type, bytes + offset, 1, second);
      store_element(type.type, bytes + offset, 2, 1);
      EXPECT_EQ(load_element(type.type, bytes + offset, 0), first) << type.name;
      EXPECT_EQ(load_element(type.type, bytes + offset, 1), second) << type.name;
      EXPECT_EQ(load_element(type.type, bytes + offset, 2), 1) << type.name;
    }
  }
}

}  // namespace kiln::numeric_test
