// Weights from fp32 and from the layouts of checkpoints: codes, scales and zero points are where
// and what they should be, and a product of them is the product of what they stand for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "generator/problem/extent.h"
#include "kiln/numeric.hpp"
#include "kiln/quantise.hpp"
#include "tuner/verify/reference.h"

namespace kiln::weights_packing_test {

using testing::HasSubstr;

std::vector<float> normal_values(std::int64_t count, std::uint64_t seed, float mean = 0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(mean, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = normal(random);
  return values;
}

TEST(QuantiseWeights, NumbersAreWithinHalfAStep) {
  constexpr std::int64_t kN = 6, kK = 256;
  const auto values = normal_values(kN * kK, 1, 0.5f);
  for (const Scale group : {Scale::line, Scale::line_32, Scale::line_64, Scale::line_128})
    for (const DType scales : {fp32, bf16, fp16})
      for (const DType type : {s4, u4, s8})
        for (const Zero zero : {Zero::none, Zero::integer, Zero::floating}) {
          if (type == u4 && zero == Zero::none) continue;
          const auto w = quantise_weights(values, kN, kK, type, group, scales, zero);
          ASSERT_TRUE(w) << w.error().message;
          ASSERT_TRUE(validate(w->problem(3, fp16)));
          EXPECT_EQ(static_cast<std::int64_t>(w->codes.size()),
                    span_bytes(w->problem(1, bf16), Operand::b));
          EXPECT_EQ(static_cast<std::int64_t>(w->scales.size()),
                    span_bytes(w->problem(1, bf16), Operand::scale_b));
          EXPECT_EQ(static_cast<std::int64_t>(w->zeros.size()),
                    span_bytes(w->problem(1, bf16), Operand::zero_b));
          const auto back = dequantise(*w);
          const int along = scale_block(group).along == 0 ? int(kK) : scale_block(group).along;
          for (std::size_t i = 0; i < values.size(); ++i) {
            const double step =
                load_element(scales, w->scales.data(), static_cast<std::int64_t>(i) / along);
            // A rounded scale or zero point moves the ends of the range by a part of a step.
            EXPECT_NEAR(back[i], values[i],
                        step * (scales == fp32 ? 0.51
                                : type == s8   ? 1.6
                                               : 0.85))
                << i;
          }
        }
}

TEST(QuantiseWeights, RefusalsNameTheField) {
  const auto message = [](std::int64_t n, std::int64_t k, DType type, Scale group,
                          DType scales = fp32, Zero zero = Zero::none, float value = 1) {
    const std::vector<float> values(static_cast<std::size_t>(n * k), value);
    const auto w = quantise_weights(values, n, k, type, group, scales, zero);
    return w ? std::string("accepted") : w.error().message;
  };
  EXPECT_THAT(message(2, 64, fp8_e5m2, Scale::line), HasSubstr("type = fp8_e5m2"));
  EXPECT_THAT(message(2, 64, fp8_e4m3, Scale::line, fp32, Zero::integer),
              HasSubstr("zero = int: b.dtype = fp8_e4m3"));
  EXPECT_THAT(message(130, 192, fp8_e4m3, Scale::square_128), HasSubstr("k = 192"));
  EXPECT_THAT(message(2, 48, fp4_e2m1, Scale::mx_32), HasSubstr("k = 48"));
  EXPECT_THAT(message(2, 64, s4, Scale::mx_32), HasSubstr("scale_b = mx32: b.dtype = s4"));
  EXPECT_THAT(message(2, 64, fp4_e2m1, Scale::mx_32, bf16), HasSubstr("scale_type = bf16"));
  EXPECT_THAT(message(2, 64, fp4_e2m1, Scale::line, fp32, Zero::floating),
              HasSubstr("zero = float: b.dtype = fp4_e2m1"));
  EXPECT_THAT(message(2, 96, s4, Scale::line_64), HasSubstr("k = 96"));
  EXPECT_THAT(message(2, 63, s4, Scale::line), HasSubstr("k = 63"));
  EXPECT_THAT(message(2, 64, s4, Scale::tensor), HasSubstr("scale_b = tensor"));
  EXPECT_THAT(message(2, 64, u4, Scale::line), HasSubstr("zero = none"));
  EXPECT_THAT(message(2, 64, s4, Scale::line, s8), HasSubstr("scale_type = s8"));
  EXPECT_THAT(message(2, 64, s4, Scale::line, fp16, Zero::none, 1e9f), HasSubstr("beyond fp16"));
  EXPECT_THAT(message(2, 64, s4, Scale::line, fp32, Zero::none, NAN), HasSubstr("column 0 at 0"));
  EXPECT_THAT(quantise_weights(std::vector<float>(5), 2, 4, s4, Scale::line).error().message,
              HasSubstr("5 values"));
  EXPECT_EQ(dequantise(*quantise_weights(std::vector<float>(64), 1, 64, s4, Scale::line_32)),
            std::vector<float>(64));
}

/// The scale maps the largest magnitude of a group to 448; codes are the nearest ones.
TEST(QuantiseWeights, FloatsAreTheNearestCodes) {
  constexpr std::int64_t kN = 130, kK = 256;
  const auto values = normal_values(kN * kK, 7);
  for (const Scale group : {Scale::line, Scale::line_32, Scale::line_128, Scale::square_128})
    for (const DType scales : {fp32, bf16}) {
      const auto w = quantise_weights(values, kN, kK, fp8_e4m3, group, scales);
      ASSERT_TRUE(w) << w.error().message;
      EXPECT_EQ(static_cast<std::int64_t>(w->scales.size()),
                span_bytes(w->problem(1, bf16), Operand::scale_b));
      const auto [columns, along] = scale_block(group);
      const std::int64_t length = along == 0 ? kK : along;
      const auto back = dequantise(*w);
      std::map<std::int64_t, double> largest;
      for (std::int64_t i = 0; i < kN * kK; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const std::int64_t g = i / kK / columns * (kK / length) + i % kK / length;
        const double scale = load_element(scales, w->scales.data(), g);
        EXPECT_EQ(static_cast<std::uint8_t>(w->codes[at]),
                  encode(kE4m3, values[at] / scale, Overflow::saturate));
        EXPECT_EQ(back[at], static_cast<float>(load_element(fp8_e4m3, w->codes.data(), i) * scale));
        largest[g] = std::max(largest[g], std::fabs(values[at] / scale));
      }
      for (const auto& [g, most] : largest) EXPECT_NEAR(most, 448, scales == fp32 ? 1e-3 : 2) << g;
    }
}

TEST(QuantiseWeights, FloatsAreRoundedOnceToEvenAndSaturate) {
  // Between 16 and 18, 18 and 20 lie ties; a little more than a tie that fp32 would take for one.
  const std::vector<float> values{448, 17, 19, -17, 0x1p-10f, 0x1.8p-9f, -0x1p-12f, 0};
  const auto w = quantise_weights(values, 1, 8, fp8_e4m3, Scale::line).value();
  EXPECT_EQ(dequantise(w), (std::vector<float>{448, 16, 20, -16, 0, 0x1p-8f, -0.0f, 0}));
  EXPECT_EQ(w.codes[6], std::byte{0x80}) << "a small negative number keeps its sign";
  // A scale of bf16 is rounded down here, so that the largest number lies beyond 448.
  const auto rounded =
      quantise_weights(std::vector<float>{448 * 1.003f}, 1, 1, fp8_e4m3, Scale::line, bf16).value();
  EXPECT_EQ(dequantise(rounded)[0], 448);
}

/// Scales of OCP's rule, as quantise() has them for two operands.
TEST(QuantiseWeights, BlocksAreThoseOfBothOperands) {
  constexpr std::int64_t kN = 9, kK = 96;
  auto values = normal_values(kN * kK, 11);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(values[i], static_cast<int>(i / 32 % 24) * 11 - 130);
  for (const DType type : {fp4_e2m1, fp8_e4m3}) {
    const auto w = quantise_weights(values, kN, kK, type, Scale::mx_32);
    ASSERT_TRUE(w) << w.error().message;
    ASSERT_TRUE(validate(w->problem(2, fp16)));
    const auto both = quantise(values, kN, kK, type, Scale::mx_32).value();
    EXPECT_EQ(w->codes, both.codes);
    EXPECT_EQ(w->scales, both.scales);
    EXPECT_EQ(dequantise(*w), dequantise(both));
  }
}

TEST(QuantiseWeights, FourBitsAreRoundedToEvenAndSaturate) {
  // The largest exponents coincide: 7.9 has that of 4, so that the scale is 1.
  std::vector<float> values(32);
  const std::vector<float> some{7.9f, 5, 3.5f, -2.5f, 1.75f, 0.75f, 0.25f, -0.25f, -6, 0.3f};
  std::ranges::copy(some, values.begin());
  const auto w = quantise_weights(values, 1, 32, fp4_e2m1, Scale::mx_32).value();
  EXPECT_EQ(w.scales, std::vector{std::byte{127}});
  EXPECT_EQ(w.codes[0], std::byte{0x67}) << "6, then the tie of 5 to 4, the first in the low half";
  auto back = dequantise(w);
  back.resize(some.size());
  EXPECT_EQ(back, (std::vector<float>{6, 4, 4, -2, 2, 1, 0, -0.0f, -6, 0.5f}));
  // With other scales the largest magnitude is the largest number.
  const auto scaled = quantise_weights(values, 1, 32, fp4_e2m1, Scale::line_32, bf16).value();
  EXPECT_EQ(load_element(fp4_e2m1, scaled.codes.data(), 0), 6);
}

/// Codes 0 to 15 and zero points, as they should come out.
struct Layer {
  static constexpr std::int64_t kN = 16, kK = 64, kGroups = 2;
  std::vector<int> codes, zeros;  // [n, k], [n, groups]
  std::vector<double> scales;     // [n, groups]

  explicit Layer(int most_zero) {
    std::mt19937 random(3);
    for (std::int64_t i = 0; i < kN * kK; ++i) codes.push_back(static_cast<int>(random() % 16));
    for (std::int64_t i = 0; i < kN * kGroups; ++i) {
      zeros.push_back(1 + static_cast<int>(random() % static_cast<unsigned>(most_zero)));
      scales.push_back(std::ldexp(1.0 + static_cast<double>(random() % 1024) / 1024, -4));
    }
  }
  std::vector<float> numbers() const {
    std::vector<float> out;
    for (std::int64_t j = 0; j < kN; ++j)
      for (std::int64_t p = 0; p < kK; ++p) {
        const auto g = static_cast<std::size_t>(j * kGroups + p / 32);
        out.push_back(static_cast<float>((codes[static_cast<std::size_t>(j * kK + p)] - zeros[g]) *
                                         scales[g]));
      }
    return out;
  }
};

/// A checkpoint's tensors, written as its own packing code does.
struct Tensors {
  std::vector<std::uint32_t> codes, zeros;
  std::vector<std::uint16_t> scales;

  Tensors(const Layer& layer, StoredAs as) {
    constexpr std::int64_t n = Layer::kN, k = Layer::kK, groups = Layer::kGroups;
    constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
    const auto code = [&](std::int64_t p, std::int64_t j) {
      return static_cast<std::uint32_t>(layer.codes[static_cast<std::size_t>(j * k + p)]);
    };
    const auto zero = [&](std::int64_t g, std::int64_t j) {
      return static_cast<std::uint32_t>(layer.zeros[static_cast<std::size_t>(j * groups + g)] -
                                        (as == StoredAs::gptq ? 1 : 0));
    };
    if (as == StoredAs::awq) {
      for (std::int64_t p = 0; p < k; ++p)
        for (std::int64_t j = 0; j < n; j += 8) {
          codes.push_back(0);
          for (int i = 0; i < 8; ++i) codes.back() |= code(p, j + kOrder[i]) << (4 * i);
        }
    } else {
      for (std::int64_t p = 0; p < k; p += 8)
        for (std::int64_t j = 0; j < n; ++j) {
          codes.push_back(0);
          for (int i = 0; i < 8; ++i) codes.back() |= code(p + i, j) << (4 * i);
        }
    }
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t j = 0; j < n; j += 8) {
        zeros.push_back(0);
        for (int i = 0; i < 8; ++i)
          zeros.back() |= zero(g, j + (as == StoredAs::awq ? kOrder[i] : i)) << (4 * i);
      }
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t j = 0; j < n; ++j)
        scales.push_back(float_to_fp16(
            static_cast<float>(layer.scales[static_cast<std::size_t>(j * groups + g)])));
  }
  StoredWeights stored(StoredAs as) const {
    return {as,   Layer::kN,    Layer::kK,     Scale::line_32,
            fp16, codes.data(), scales.data(), zeros.data()};
  }
};

TEST(WeightsFrom, CheckpointsAreTheirNumbers) {
  for (const StoredAs as : {StoredAs::gptq, StoredAs::gptq_v2, StoredAs::awq})
    for (const int most_zero : {15, 16}) {
      if (most_zero == 16 && as != StoredAs::gptq) continue;
      const Layer layer(most_zero);
      const Tensors tensors(layer, as);
      const auto w = weights_from(tensors.stored(as));
      ASSERT_TRUE(w) << w.error().message;
      EXPECT_EQ(w->zero, most_zero == 16 ? Zero::floating : Zero::integer);
      EXPECT_EQ(dequantise(*w), layer.numbers()) << static_cast<int>(as);
    }
  Layer layer(15);
  std::vector<std::uint8_t> codes(layer.codes.begin(), layer.codes.end());
  std::vector<std::uint8_t> zeros(layer.zeros.begin(), layer.zeros.end());
  std::vector<float> scales(layer.scales.begin(), layer.scales.end());
  StoredWeights plain{StoredAs::plain, Layer::kN,     Layer::kK,   Scale::line_32, fp32,
                      codes.data(),    scales.data(), zeros.data()};
  EXPECT_EQ(dequantise(*weights_from(plain)), layer.numbers());
  codes[Layer::kK + 3] = 16;
  EXPECT_THAT(weights_from(plain).error().message, HasSubstr("codes: 16 in column 1 at 3"));
  codes[Layer::kK + 3] = 0;
  plain.zeros = nullptr;
  layer.zeros.assign(layer.zeros.size(), 8);
  layer.codes[Layer::kK + 3] = 0;
  EXPECT_EQ(dequantise(*weights_from(plain)), layer.numbers());
}

TEST(WeightsFrom, PlainFloatsAreTheirNumbers) {
  constexpr std::int64_t kN = 130, kK = 256;
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < kN * kK; ++i) codes.push_back(static_cast<std::uint8_t>(i % 251));
  for (auto& code : codes)
    if ((code & 0x7f) == 0x7f) code = 0x7e;
  for (const Scale group : {Scale::square_128, Scale::line_64}) {
    const auto [columns, along] = scale_block(group);
    std::vector<float> scales;
    for (std::int64_t i = 0; i < (kN + columns - 1) / columns * (kK / along); ++i)
      scales.push_back(std::ldexp(1.0f, static_cast<int>(i % 5) - 2));
    StoredWeights stored{.as = StoredAs::plain,
                         .n = kN,
                         .k = kK,
                         .group = group,
                         .scale_type = fp32,
                         .codes = codes.data(),
                         .scales = scales.data()};
    stored.type = fp8_e4m3;
    const auto w = weights_from(stored);
    ASSERT_TRUE(w) << w.error().message;
    EXPECT_EQ(w->type, fp8_e4m3);
    EXPECT_EQ(w->zero, Zero::none);
    ASSERT_TRUE(validate(w->problem(3, bf16)));
    const auto numbers = dequantise(*w);
    for (std::int64_t j = 0; j < kN; ++j)
      for (std::int64_t p = 0; p < kK; ++p)
        ASSERT_EQ(numbers[static_cast<std::size_t>(j * kK + p)],
                  decode(kE4m3, codes[static_cast<std::size_t>(j * kK + p)]) *
                      scales[static_cast<std::size_t>(j / columns * (kK / along) + p / along)]);
  }
}

TEST(WeightsFrom, PackedBlocksAreTheirNumbers) {
  constexpr std::int64_t kN = 5, kK = 64;
  std::vector<std::uint8_t> codes, scales;
  for (std::int64_t i = 0; i < kN * kK / 2; ++i) codes.push_back(static_cast<std::uint8_t>(i * 7));
  for (std::int64_t i = 0; i < kN * kK / 32; ++i)
    scales.push_back(static_cast<std::uint8_t>(i * 25 + 3));
  StoredWeights stored{.as = StoredAs::plain,
                       .n = kN,
                       .k = kK,
                       .group = Scale::mx_32,
                       .codes = codes.data(),
                       .scales = scales.data()};
  stored.type = fp4_e2m1;
  const auto w = weights_from(stored);
  ASSERT_TRUE(w) << w.error().message;
  ASSERT_TRUE(validate(w->problem(3, bf16)));
  const auto numbers = dequantise(*w);
  for (std::int64_t i = 0; i < kN * kK; ++i) {
    const int code = codes[static_cast<std::size_t>(i / 2)] >> i % 2 * 4 & 15;
    ASSERT_EQ(numbers[static_cast<std::size_t>(i)],
              std::ldexp(decode(kE2m1, static_cast<std::uint8_t>(code)),
                         scales[static_cast<std::size_t>(i / 32)] - 127));
  }
}

TEST(WeightsFrom, RefusalsNameTheField) {
  const Layer layer(15);
  const Tensors tensors(layer, StoredAs::awq);
  const auto message = [&](auto change) {
    StoredWeights s = tensors.stored(StoredAs::awq);
    change(s);
    const auto w = weights_from(s);
    return w ? std::string("accepted") : w.error().message;
  };
  EXPECT_THAT(message([](auto& s) { s.n = 12; }), HasSubstr("n = 12"));
  EXPECT_THAT(message([](auto& s) { s.k = 60; }), HasSubstr("k = 60"));
  EXPECT_THAT(message([](auto& s) { s.k = 48; }), HasSubstr("k = 48: groups of 32"));
  EXPECT_THAT(message([](auto& s) { s.codes = nullptr; }), HasSubstr("codes = null"));
  EXPECT_THAT(message([](auto& s) { s.scales = nullptr; }), HasSubstr("scales = null"));
  EXPECT_THAT(message([](auto& s) { s.scale_type = s8; }), HasSubstr("scale_type = s8"));
  EXPECT_THAT(message([](auto& s) { s.as = static_cast<StoredAs>(9); }), HasSubstr("as = 9"));
  EXPECT_THAT(message([](auto& s) { s.type = fp8_e4m3; }), HasSubstr("type = fp8_e4m3"));
  EXPECT_THAT(message([](auto& s) { s.group = Scale::square_128; }), HasSubstr("group = 128x128"));
  EXPECT_THAT(message([](auto& s) { s.group = Scale::mx_32; }), HasSubstr("b.dtype = u4"));
  EXPECT_THAT(message([](auto& s) { s.as = StoredAs::plain, s.type = fp8_e4m3; }),
              HasSubstr("zeros: fp8_e4m3 has no zero points"));
  EXPECT_THAT(message([](auto& s) { s.as = StoredAs::plain, s.type = fp4_e2m1; }),
              HasSubstr("zeros: fp4_e2m1 has no zero points"));
}

TEST(WeightsFrom, AProductIsThatOfTheirNumbers) {
  const Layer layer(16);
  const Tensors tensors(layer, StoredAs::gptq);
  const auto w = weights_from(tensors.stored(StoredAs::gptq)).value();
  const Gemm gemm = w.problem(2, fp16).output(fp32);
  std::vector<std::uint16_t> a;
  const auto x = normal_values(2 * Layer::kK, 5);
  for (const float value : x) a.push_back(float_to_fp16(value));
  std::vector<float> d(2 * Layer::kN);
  Operands operands{.a = a.data(), .b = w.codes.data(), .d = d.data()};
  operands.scale_b = w.scales.data(), operands.zero_b = w.zeros.data();
  ASSERT_TRUE(reference_gemm(gemm, operands));
  const auto numbers = layer.numbers();
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < Layer::kN; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < Layer::kK; ++p)
        sum += double(fp16_to_float(a[static_cast<std::size_t>(i * Layer::kK + p)])) *
               numbers[static_cast<std::size_t>(j * Layer::kK + p)];
      EXPECT_NEAR(d[static_cast<std::size_t>(i * Layer::kN + j)], sum, 1e-4);
    }
}

}  // namespace kiln::weights_packing_test
