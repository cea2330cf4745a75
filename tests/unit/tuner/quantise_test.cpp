// Quantising: every code is reached and is the nearest one, scales are those of the rules, and a
// product of what comes out is the product of what it stands for.
#include "kiln/quantise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/reference.h"

namespace kiln::quantise_test {

using testing::HasSubstr;

constexpr DType kSmall[] = {fp8_e4m3, fp8_e5m2, fp8_e4m3fnuz, fp8_e5m2fnuz,
                            fp6_e2m3, fp6_e3m2, fp4_e2m1};
constexpr Scale kScales[] = {Scale::none,       Scale::line,  Scale::line_128,
                             Scale::square_128, Scale::mx_32, Scale::tensor};

bool allowed(DType type, Scale scale) { return scale != Scale::mx_32 || is_mx_element(type); }

std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-3, 3);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = std::ldexp(normal(random), exponent(random));
  return values;
}

double scale_of_element(const Quantised& q, std::int64_t line, std::int64_t p) {
  if (q.scale == Scale::none) return 1;
  const ScaleBlock block = scale_block(q.scale);
  const std::int64_t columns = block.along == 0 ? 1 : (q.k + block.along - 1) / block.along;
  const std::int64_t at = line / block.lines * columns + (block.along == 0 ? 0 : p / block.along);
  if (q.scale != Scale::mx_32) return load_element(DType::fp32, q.scales.data(), at);
  return decode(kE8m0, static_cast<std::uint8_t>(q.scales[static_cast<std::size_t>(at)]));
}

TEST(Quantise, EveryCodeOfEveryTypeSurvives) {
  for (const DType type : kSmall) {
    const SmallFormat& f = small_format_of(type);
    // Each line starts with the largest number, so that its scale is one power of two for all.
    std::vector<float> values;
    std::int64_t lines = 0;
    for (int code = 0; code <= f.last_code(); ++code) {
      const float value = decode(f, static_cast<std::uint8_t>(code));
      if (!std::isfinite(value)) continue;
      ++lines;
      for (int p = 0; p < 32; ++p)
        values.push_back(std::ldexp(p == 0 ? decode(f, f.largest) : value, code % 7 - 3));
    }
    for (const Scale scale : {Scale::line, Scale::line_128, Scale::mx_32}) {
      if (!allowed(type, scale)) continue;
      const auto q = quantise(values, lines, 32, type, scale);
      ASSERT_TRUE(q) << q.error().message;
      EXPECT_EQ(dequantise(*q), values) << name(type) << " " << name(scale);
    }
  }
}

TEST(Quantise, CodesAreTheNearestOnes) {
  constexpr std::int64_t kLines = 131, kK = 288;
  for (const DType type : kSmall)
    for (const Scale scale : kScales) {
      if (!allowed(type, scale)) continue;
      const auto values = random_values(kLines * kK, 7);
      const auto q = quantise(values, kLines, kK, type, scale);
      ASSERT_TRUE(q) << q.error().message;
      const SmallFormat& f = small_format_of(type);
      std::vector<double> numbers;
      for (int code = 0; code <= f.last_code(); ++code) {
        const double x = decode(f, static_cast<std::uint8_t>(code));
        if (std::isfinite(x)) numbers.push_back(x);
      }
      const auto back = dequantise(*q);
      for (std::int64_t at = 0; at < kLines * kK; at += 13) {
        const double s = scale_of_element(*q, at / kK, at % kK);
        const double value = values[static_cast<std::size_t>(at)];
        double best = INFINITY;
        for (const double x : numbers) best = std::min(best, std::fabs(x * s - value));
        const double got = std::fabs(back[static_cast<std::size_t>(at)] - value);
        ASSERT_LE(got, best + 1e-6 * std::fabs(value))
            << name(type) << " " << name(scale) << " " << value;
      }
    }
}

TEST(Quantise, ScalesFollowTheirRules) {
  std::vector<float> values(64, 0.0F);
  values[3] = -3.0F;                                                        // exponent 1
  values[40] = 1000.F;                                                      // exponent 9
  const auto mx = quantise(values, 1, 64, fp4_e2m1, Scale::mx_32).value();  // largest 6: exponent 2
  EXPECT_EQ(mx.scales, (std::vector<std::byte>{std::byte{127 + 1 - 2}, std::byte{127 + 9 - 2}}));
  EXPECT_EQ(mx.codes.size(), 32U);
  EXPECT_EQ(dequantise(mx)[3], -3.0F);
  EXPECT_EQ(dequantise(mx)[40], 768.0F);  // 1000 / 128 is beyond 6

  const auto line = quantise(values, 1, 64, fp8_e4m3, Scale::line).value();
  EXPECT_EQ(static_cast<float>(load_element(DType::fp32, line.scales.data(), 0)), 1000.F / 448);
  EXPECT_NEAR(dequantise(line)[40], 1000.F, 1e-3);

  const std::vector<float> zeros(128);
  for (const Scale scale : kScales)
    EXPECT_EQ(dequantise(quantise(zeros, 2, 64, fp8_e5m2, scale).value()), zeros);
}

TEST(Quantise, OfTheSmallestAndTheLargestNumbersNothingIsLostButTheirEnds) {
  const std::vector<float> tiny(32, std::numeric_limits<float>::denorm_min());
  const auto q = quantise(tiny, 1, 32, fp8_e4m3, Scale::mx_32).value();
  EXPECT_EQ(q.scales[0], std::byte{0});  // 2^-127 is the smallest scale there is
  EXPECT_EQ(dequantise(quantise(tiny, 1, 32, fp8_e4m3, Scale::line).value())[0], 0);
  const std::vector<float> huge(32, -std::numeric_limits<float>::max());
  for (const DType type : kSmall) {
    const auto back = dequantise(quantise(huge, 1, 32, type, Scale::line).value());
    EXPECT_NEAR(back[0] / huge[0], 1, 1e-6) << name(type);
  }
}

TEST(Quantise, RefusesWhatItCannotDo) {
  std::vector<float> values(64, 1.0F);
  const auto message = [&](std::int64_t lines, std::int64_t k, DType type, Scale scale) {
    const auto q = quantise(values, lines, k, type, scale);
    return q ? std::string("accepted") : q.error().message;
  };
  EXPECT_THAT(message(2, 31, fp8_e4m3, Scale::none), HasSubstr("lines = 2, k = 31"));
  EXPECT_THAT(message(2, 32, bf16, Scale::none), HasSubstr("type = bf16"));
  EXPECT_THAT(message(4, 16, fp8_e4m3, Scale::mx_32), HasSubstr("k = 16"));
  EXPECT_THAT(message(2, 32, fp8_e4m3fnuz, Scale::mx_32), HasSubstr("type = fp8_e4m3fnuz"));
  values[33] = INFINITY;
  EXPECT_THAT(message(2, 32, fp4_e2m1, Scale::mx_32), HasSubstr("line 1 at 1"));
  values.clear();
  EXPECT_THAT(message(std::int64_t{1} << 62, 0, fp8_e4m3, Scale::line), HasSubstr("lines = 46"));
  values.resize(6);
  EXPECT_THAT(message(1, 6, fp6_e2m3, Scale::none), HasSubstr("k = 6"));
}

TEST(Quantise, ProductsOfWhatComesOutAreProductsOfWhatItStandsFor) {
  constexpr std::int64_t kM = 37, kN = 141, kK = 160;
  const std::pair<Scale, Scale> kinds[] = {{Scale::line, Scale::line},
                                           {Scale::line, Scale::none},
                                           {Scale::tensor, Scale::tensor},
                                           {Scale::line_128, Scale::square_128},
                                           {Scale::mx_32, Scale::mx_32}};
  for (const TypeRow& row : kAllTypeRows)
    for (const auto& [of_a, of_b] : kinds) {
      Gemm g = Gemm::row_major(kM, kN, kK, row.a).transpose_b().output(fp32).scaled(of_a, of_b);
      g.b.dtype = row.b;
      g.accumulator = row.accumulator;
      if (!validate(g)) continue;
      // Integers without scales are small, others have them; u8 has no negative codes.
      const auto values = [](std::int64_t count, std::uint64_t seed, DType type) {
        auto all = random_values(count, seed);
        for (float& x : all) x = type == u8 ? std::fabs(x) : x;
        return all;
      };
      const auto a = quantise(values(kM * kK, 1, row.a), kM, kK, row.a, of_a).value();
      const auto b = quantise(values(kN * kK, 2, row.b), kN, kK, row.b, of_b).value();
      std::vector<float> d(kM * kN), wanted(kM * kN);
      Operands operands{.a = a.codes.data(), .b = b.codes.data(), .d = d.data()};
      operands.scale_a = a.scales.data(), operands.scale_b = b.scales.data();
      ASSERT_TRUE(reference_gemm(g, operands)) << text(g);
      const auto left = dequantise(a), right = dequantise(b);
      Gemm plain = Gemm::row_major(kM, kN, kK).transpose_b();
      ASSERT_TRUE(reference_gemm(plain, {.a = left.data(), .b = right.data(), .d = wanted.data()}));
      for (std::size_t i = 0; i < d.size(); ++i)
        ASSERT_NEAR(d[i], wanted[i], 1e-4 * (1 + std::fabs(wanted[i]))) << text(g) << " at " << i;
    }
}

}  // namespace kiln::quantise_test
