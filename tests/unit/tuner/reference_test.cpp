// The reference against sums done by hand, by another method, or exactly; and the data it works on.
#include "tuner/verify/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "generator/problem/extent.h"
#include "support/naive_gemm.h"
#include "tuner/verify/accumulate.h"
#include "tuner/verify/data.h"
#include "tuner/verify/view.h"

namespace kiln::reference_test {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::byte> filled(const Gemm& g, Operand which, Data kind, std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(span(g, which) * size_of(matrix(g, which).dtype));
  fill(g, which, kind, seed, bytes.data());
  return bytes;
}

std::vector<double> row_of(const Gemm& g, Operand which, const void* base, std::int64_t row) {
  const MatrixView view = view_of(g, which, base, 0);
  std::vector<double> out(view.columns);
  load_block(view, row, 1, 0, view.columns, out.data());
  return out;
}

TEST(Reference, MultipliesByHand) {
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12};  // [2,3] · [3,2]
  float d[4] = {}, c[] = {1, 1, 1, -200}, bias[] = {0.5, -0.5}, residual[] = {1, 2, 3, 4};
  const Gemm g = Gemm::row_major(2, 2, 3);
  ASSERT_TRUE(reference_gemm(g, {.a = a, .b = b, .d = d}));
  EXPECT_THAT(d, ElementsAre(58, 64, 139, 154));

  const Gemm busy = g.with_bias(Bias::per_row).with_activation(Activation::relu).with_residual();
  const Operands operands{
      .a = a, .b = b, .c = c, .d = d, .bias = bias, .residual = residual, .alpha = 2, .beta = -1};
  ASSERT_TRUE(reference_gemm(busy, operands));
  // 2·58 - 1 + 0.5 + 1 and so on.
  EXPECT_THAT(d, ElementsAre(116.5, 129.5, 279.5, 511.5));

  Operands nothing = operands;
  nothing.alpha = -1, nothing.beta = 0;
  ASSERT_TRUE(reference_gemm(busy, nothing));  // relu, then the residual
  EXPECT_THAT(d, ElementsAre(1, 2, 3, 4));
}

TEST(Reference, NamesAMissingOperand) {
  float x[4] = {};
  const Gemm g = Gemm::row_major(2, 2, 2);
  const Status no_b = reference_gemm(g, {.a = x, .d = x});
  ASSERT_FALSE(no_b);
  EXPECT_EQ(no_b.error().message, "b = null: this problem needs it");
  const Status no_c = reference_gemm(g, {.a = x, .b = x, .d = x, .beta = 1.0});
  ASSERT_FALSE(no_c);
  EXPECT_THAT(no_c.error().message, HasSubstr("c = null"));
}

TEST(Reference, AgreesWithAnotherWayInEveryLayout) {
  for (Order order : {Order::row_major, Order::column_major})
    for (int mask = 0; mask < 8; ++mask) {
      Gemm g = order == Order::row_major ? Gemm::row_major(11, 14, 35, fp64)
                                         : Gemm::column_major(11, 14, 35, fp64);
      g = g.batched(2).with_bias(Bias::per_column);
      g.a.transposed = mask & 1;
      g.b.transposed = mask & 2;
      if (mask & 4) g.a.order = order == Order::row_major ? Order::column_major : Order::row_major;
      g.a.ld = 37, g.b.ld = 40, g.c.ld = 19, g.d.ld = 17;
      const auto a = filled(g, Operand::a, Data::uniform), b = filled(g, Operand::b, Data::uniform);
      const auto c = filled(g, Operand::c, Data::uniform);
      std::vector<double> bias(14), d(span(g, Operand::d), 0.0), other(d);
      fill(g, Operand::bias, Data::uniform, 1, bias.data());
      Operands in{.a = a.data(), .b = b.data(), .c = c.data(), .d = d.data(), .bias = bias.data()};
      in.alpha = 0.3, in.beta = 0.7;
      ASSERT_TRUE(reference_gemm(g, in));
      in.d = other.data();
      test::naive_gemm(g, in);
      for (std::size_t i = 0; i < d.size(); ++i) ASSERT_NEAR(d[i], other[i], 1e-14) << text(g);
    }
}

TEST(Reference, ColumnsAndRowsAreTheSameProducts) {
  const Gemm g = Gemm::row_major(33, 290, 50, bf16).transpose_b();
  const auto a = filled(g, Operand::a, Data::uniform), b = filled(g, Operand::b, Data::uniform);
  const Products rows = products(g, a.data(), b.data(), {Lines::Along::rows, 0, {0, 7, 32}});
  const Products columns =
      products(g, a.data(), b.data(), {Lines::Along::columns, 0, {289, 0, 256, 255}});
  ASSERT_EQ(rows.length, 290);
  ASSERT_EQ(columns.length, 33);
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 4; ++c) {
      const std::int64_t row = rows.lines.index[r], column = columns.lines.index[c];
      EXPECT_EQ(rows.sum[r * 290 + column], columns.sum[c * 33 + row]);
      EXPECT_EQ(rows.magnitude[r * 290 + column], columns.magnitude[c * 33 + row]);
      EXPECT_GE(rows.magnitude[r * 290 + column], std::fabs(rows.sum[r * 290 + column]));
    }
}

TEST(Reference, Fp64SumsSurviveCancellation) {
  // 2^60 + 1 - 2^60 and (1 + 2^-30)^2: lost in plain double.
  const double a[] = {0x1p60, 1.0, -0x1p60, 1.0 + 0x1p-30, -1.0};
  const double b[] = {1.0, 1.0, 1.0, 1.0 + 0x1p-30, 1.0 + 0x1p-29};
  const Gemm g = Gemm::row_major(1, 1, 5, fp64);
  const Products sums = products(g, a, b, {Lines::Along::rows, 0, {0}});
  EXPECT_EQ(sums.sum[0], 1.0 + 0x1p-60 + 0.0);
  const Products tail =
      products(Gemm::row_major(1, 1, 2, fp64), a + 3, b + 3, {Lines::Along::rows, 0, {0}});
  EXPECT_EQ(tail.sum[0], 0x1p-60);
}

TEST(Reference, EveryInstructionSetSumsAlike) {
  // Lengths around the panel's, so that tails and whole panels are both met.
  for (auto [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {35, 255, 15}, {3, 257, 17}, {34, 513, 33}}) {
    const Gemm g = Gemm::row_major(m, n, k, s8);
    const auto a = filled(g, Operand::a, Data::uniform), b = filled(g, Operand::b, Data::uniform);
    std::vector<std::int32_t> d(m * n), other(d);
    ASSERT_TRUE(reference_gemm(g, {.a = a.data(), .b = b.data(), .d = d.data()}));
    test::naive_gemm(g, {.a = a.data(), .b = b.data(), .d = other.data()});
    EXPECT_EQ(d, other);
  }
}

TEST(Reference, PropagatesNaNAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float a[] = {inf, 1, nan, 1, 1, 1};  // [3,2]
  const float b[] = {1, -1, 0, 1, 1, 1};     // [2,3]
  float d[9] = {};
  ASSERT_TRUE(reference_gemm(Gemm::row_major(3, 3, 2), {.a = a, .b = b, .d = d}));
  EXPECT_EQ(d[0], inf);
  EXPECT_EQ(d[1], -inf);
  EXPECT_TRUE(std::isnan(d[2]));  // inf · 0
  for (int j = 3; j < 6; ++j) EXPECT_TRUE(std::isnan(d[j]));
  EXPECT_THAT(std::vector<float>(d + 6, d + 9), ElementsAre(2, 0, 1));
}

TEST(IntegerProducts, EqualProductsOnExactData) {
  for (DType type : {fp32, fp64, bf16, fp16, s8, u8})
    for (Order order : {Order::row_major, Order::column_major}) {
      const Gemm g = (order == Order::row_major ? Gemm::row_major(21, 35, 90, type)
                                                : Gemm::column_major(21, 35, 90, type))
                         .batched(2);
      const auto a = filled(g, Operand::a, Data::exact), b = filled(g, Operand::b, Data::exact);
      const bool rows = order == Order::row_major;
      Lines all{rows ? Lines::Along::rows : Lines::Along::columns, 1, {}};
      all.index.resize(rows ? 21 : 35);
      std::iota(all.index.begin(), all.index.end(), 0);
      const Products sums = products(g, a.data(), b.data(), all);
      const auto integers = integer_products(g, a.data(), b.data(), 1);
      EXPECT_EQ(std::vector<double>(integers.begin(), integers.end()), sums.sum) << text(g);
      EXPECT_NE(std::ranges::count_if(integers, [](int x) { return x != 0; }), 0);
    }
}

std::pair<double, double> expect_one(const Gemm& g, const Scaling& scaling, double sum,
                                     double magnitude) {
  double value = 0, error = 0;
  const double none = 0;
  Terms terms{{&sum, 1}, {&magnitude, 1}};
  terms.of.fill({&none, 1});
  expect(g, scaling, terms, {&value, 1}, {&error, 1});
  return {value, error};
}

TEST(Expect, AllowsWhatTheAccumulatorLoses) {
  const Gemm g = Gemm::row_major(1, 1, 100);
  const auto [value, error] = expect_one(g, {1.0, 0.0}, 10.0, 50.0);
  EXPECT_EQ(value, 10.0);
  EXPECT_LE(error, 102 * 50 * 0x1p-24 + 40 * 0x1p-24);  // k + 2 roundings, then a few more
  EXPECT_GE(error, 10 * 50 * 0x1p-24);
  EXPECT_EQ(expect_one(g, {1.0, 0.0, true}, 10.0, 50.0).second, 0.0);
  EXPECT_LT(expect_one(Gemm::row_major(1, 1, 100, fp64), {1.0, 0.0}, 10.0, 50.0).second, 1e-12);
}

/// Weights that may be rounded to A's type: one rounding, one of a scale of another type, one of a
/// zero point that is not an integer.
TEST(Expect, AllowsWhatWeightsLose) {
  const auto error = [](const char* line, Numerics numerics) {
    const Gemm g = parse_gemm(line).value().with_numerics(numerics);
    return expect_one(g, {1.0, 0.0}, 10.0, 50.0).second;
  };
  const auto more = [&](const char* line) {
    return error(line, Numerics::fast) - error(line, Numerics::ieee);
  };
  EXPECT_NEAR(more("bf16_int4 N T 1 1 64 group=64 scale_type=bf16"), 50 * 0x1p-8, 1e-9);
  EXPECT_NEAR(more("bf16_int4 N T 1 1 64 group=64"), 50 * 0x1p-7, 1e-9);
  EXPECT_NEAR(more("bf16_int4 N T 1 1 64 group=64 zero=float"), 150 * 0x1p-8, 1e-9);
  EXPECT_NEAR(more("fp16_int4 N T 1 1 64 group=64 scale_type=fp16"), 50 * 0x1p-11, 1e-9);
  EXPECT_NEAR(more("bf16_int4 N T 1 1 4096 group=64 scale_type=bf16"), 50 * 0x1p-11, 1e-9);
  EXPECT_EQ(more("bf16_fp4 N T 1 1 64 group=mx32"), 0.0);
}

TEST(Expect, DemandsEqualityOfPlainIntegers) {
  const Gemm g = Gemm::row_major(1, 1, 100, s8);
  EXPECT_EQ(expect_one(g, {1.0, 0.0}, 123456.0, 1e6).second, 0.0);
  EXPECT_GT(expect_one(g, {0.5, 0.0}, 123456.0, 1e6).second, 0.0);
  EXPECT_GT(expect_one(g.with_activation(Activation::silu), {1.0, 0.0}, 5.0, 5.0).second, 0.0);
}

TEST(Expect, ActivatesAsWritten) {
  const Gemm g = Gemm::row_major(1, 1, 1, fp64);
  const auto at = [&](Activation f, double x) {
    return expect_one(g.with_activation(f), {1.0, 0.0}, x, std::fabs(x)).first;
  };
  EXPECT_EQ(at(Activation::relu, -2.5), 0.0);
  EXPECT_TRUE(std::isnan(at(Activation::relu, kNaN)));
  // Values from tables of the normal distribution and the logistic function.
  EXPECT_NEAR(at(Activation::gelu_erf, 1.0), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(at(Activation::gelu_erf, -2.0), -2 * 0.022750131948179195, 1e-15);
  EXPECT_NEAR(at(Activation::gelu_tanh, 1.0), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(at(Activation::silu, 1.0), 0.7310585786300049, 1e-15);
  EXPECT_NEAR(at(Activation::silu, 0.5), 0.5 * 0.6224593312018546, 1e-15);
}

TEST(Accepts, IsExactlyTheRoundingsOfTheInterval) {
  EXPECT_TRUE(accepts(fp32, 1.0, 0.0, 1.0));
  EXPECT_FALSE(accepts(fp32, 1.0, 0.0, 1.0 + 0x1p-23));
  EXPECT_TRUE(accepts(fp32, 1.0, 0x1p-23, 1.0 + 0x1p-23));
  EXPECT_TRUE(accepts(bf16, 1.0 + 0x1p-9, 0.0, 1.0));
  EXPECT_TRUE(accepts(bf16, 1.0 + 0x1.8p-8, 0.0, 1.0 + 0x1p-7));
  EXPECT_FALSE(accepts(bf16, 1.0 + 0x1.8p-8, 0.0, 1.0));
  EXPECT_TRUE(accepts(fp16, 70000.0, 1.0, kInfinity));
  EXPECT_FALSE(accepts(fp16, 60000.0, 1.0, kInfinity));
  EXPECT_TRUE(accepts(fp16, 0x1.4p-24, 0.0, 0x1p-24));  // subnormal
  EXPECT_TRUE(accepts(s8, 300.0, 0.0, 127.0));
  EXPECT_FALSE(accepts(s8, 300.0, 0.0, 44.0));
  EXPECT_TRUE(accepts(u8, -3.0, 0.0, 0.0));
  EXPECT_TRUE(accepts(s32, 2.5, 0.0, 2.0));
  EXPECT_FALSE(accepts(s32, 2.5, 0.0, 3.0));
  EXPECT_TRUE(accepts(s32, 2.5, 1e-6, 3.0));
  EXPECT_TRUE(accepts(fp32, 0.0, 0.0, -0.0));
}

TEST(Accepts, WantsNaNForNaNAndInfinityForInfinity) {
  EXPECT_TRUE(accepts(fp32, kNaN, 0.0, kNaN));
  EXPECT_FALSE(accepts(fp32, kNaN, 0.0, 1.0));
  EXPECT_FALSE(accepts(fp32, 1.0, 1.0, kNaN));
  EXPECT_TRUE(accepts(fp32, -kInfinity, 0.0, -kInfinity));
  EXPECT_FALSE(accepts(fp32, -kInfinity, 0.0, kInfinity));
  EXPECT_FALSE(accepts(bf16, kInfinity, 0.0, 3e38));
}

TEST(Data, IsTheSameForTheSameSeedOnly) {
  const Gemm g = Gemm::row_major(40, 40, 40);
  for (Data kind : {Data::uniform, Data::exact})
    for (Operand which : {Operand::a, Operand::b, Operand::c}) {
      EXPECT_EQ(filled(g, which, kind, 3), filled(g, which, kind, 3));
      EXPECT_NE(filled(g, which, kind, 3), filled(g, which, kind, 4));
    }
  EXPECT_NE(filled(g, Operand::a, Data::uniform), filled(g, Operand::b, Data::uniform));
  EXPECT_EQ(Random(1, 2).next(), 0x60e0ed02942a9f33u);  // seeds mean the same on every machine
}

TEST(Data, UniformFillsTheRange) {
  for (DType type : {fp32, fp64, bf16, fp16, s8, u8}) {
    const Gemm g = Gemm::row_major(64, 1, 64, type);
    const auto a = filled(g, Operand::a, Data::uniform);
    std::vector<double> values(64 * 64);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = load_element(g.a.dtype, a.data(), i);
    const double low = type == s8 ? -128 : type == u8 ? 0 : -1;
    const double high = type == s8 ? 127 : type == u8 ? 255 : 1;
    const auto [least, most] = std::ranges::minmax(values);
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / values.size();
    EXPECT_GE(least, low);
    EXPECT_LE(most, high);
    EXPECT_LT(least, low + 0.01 * (high - low));
    EXPECT_GT(most, high - 0.01 * (high - low));
    EXPECT_NEAR(mean, (low + high) / 2, 0.02 * (high - low));
  }
}

TEST(Data, ExactTouchesTheFirstAndLastStepAndStaysSparse) {
  const Gemm g = Gemm::row_major(4096, 32768, 512, bf16);  // big enough to be sparse
  const auto a = filled(g, Operand::a, Data::exact);
  std::vector<int> met(512);
  for (std::int64_t i = 0; i < g.m; ++i) {
    const std::vector<double> row = row_of(g, Operand::a, a.data(), i);
    EXPECT_NE(row.front(), 0.0);
    EXPECT_NE(row.back(), 0.0);
    EXPECT_EQ(std::ranges::count_if(row, [](double x) { return x != 0.0; }), 16);
    for (int p = 0; p < 512; ++p) met[p] += row[p] != 0.0;
  }
  EXPECT_THAT(met, Each(testing::Gt(0)));  // some row tests each step
}

TEST(Data, LeavesPaddingAlone) {
  Gemm g = Gemm::row_major(3, 4, 5).batched(2);
  g.a.ld = 7;
  std::vector<float> a(span(g, Operand::a), 42.0f);
  fill(g, Operand::a, Data::uniform, 1, a.data());
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_NE(a[i * 7 + 4], 42.0f);
    if (i < 5) {  // the buffer ends with the last line's last element
      EXPECT_EQ(a[i * 7 + 5], 42.0f);
    }
  }
}

}  // namespace kiln::reference_test
