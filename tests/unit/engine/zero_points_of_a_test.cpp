// Zero points of an A of integers: rules, text and extents, the sums of B's columns that come with
// them, codes made with them, and products against sums written out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "engine/plan.h"
#include "generator/problem/extent.h"
#include "generator/problem/problem.h"
#include "kiln/kiln.h"
#include "kiln/numeric.hpp"
#include "kiln/quantise.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/opened_engine.h"
#include "tuner/verify/reference.h"
#include "tuner/verify/verify.h"

namespace kiln::zero_points_of_a_test {

using testing::HasSubstr;

Gemm problem(const std::string& line) { return parse_gemm(line).value(); }

TEST(ZeroPointsOfA, TextNamesThem) {
  for (const char* line :
       {"int8 N T 5 200 64 out=bf16 scale=line zero_a=line",
        "u8s8 N T 5 200 64 out=fp32 scale=tensor:line zero_a=tensor",
        "int8 N T 5 200 64 out=s8 scale=line gate=silu scale_d=line zero_a=line",
        "int8 N N 5 200 64 out=fp16 packed_b=1 scale=line:none zero_a=line",
        "int8 N T 50 200 64 groups=3 grouped=rows out=bf16 scale=line zero_a=line"}) {
    const auto g = parse_gemm(line);
    ASSERT_TRUE(g) << line << ": " << g.error().message;
    EXPECT_EQ(text(*g), line);
  }
}

TEST(ZeroPointsOfA, RefusalsNameTheField) {
  const auto message = [](const std::string& line) {
    const auto g = parse_gemm(line);
    return g ? "accepted " + line : g.error().message;
  };
  EXPECT_THAT(message("int8 N T 5 200 64 out=bf16 scale=line zero_a=1x128"),
              HasSubstr("zero_a = \"1x128\": must be none, line or tensor"));
  EXPECT_THAT(message("fp8 N T 5 200 64 scale=line zero_a=line"),
              HasSubstr("zero_a = line: a.dtype = fp8_e4m3"));
  EXPECT_THAT(message("bf16_int8 N T 5 200 64 group=k zero_a=line"),
              HasSubstr("zero_a = line: a.dtype = bf16, b.dtype = s8"));
  EXPECT_THAT(message("int8 N T 5 200 64 out=bf16 scale=none:line zero_a=line"),
              HasSubstr("zero_a = line: scale_a = none"));
  EXPECT_THAT(message("int8 N T 5 200 64 zero_a=tensor"), HasSubstr("scale_a = none"));
  EXPECT_THAT(message("int8 N T 5 200 64 order=column out=bf16 scale=line zero_a=line"),
              HasSubstr("zero_a = line: d.order = column"));
  EXPECT_THAT(message("int8 T N 5 200 64 groups=3 grouped=k out=bf16 scale=line zero_a=line"),
              HasSubstr("zero_a = line: grouping = k"));
  Gemm g = problem("int8 N T 5 200 64 out=bf16 scale=line");
  g.a.q.zero = Zero::integer;
  EXPECT_THAT(validate(g).error().message, HasSubstr("zero_a = 8: no such kind of"));
  g.a.q.zero = static_cast<Zero>(9);
  EXPECT_THAT(validate(g).error().message, HasSubstr("zero_a = 8: no such kind of"));
}

TEST(ZeroPointsOfA, LieAsScalesDo) {
  const Gemm g = problem("int8 N T 300 129 260 out=bf16 scale=line zero_a=line");
  EXPECT_EQ(span_bytes(g, Operand::zero_a), 300 * 4);
  EXPECT_EQ(span_bytes(g, Operand::column_sums_b), 129 * 4);
  EXPECT_EQ(span_bytes(g.batched(2), Operand::column_sums_b), 2 * 129 * 4);
  EXPECT_EQ(span_bytes(g.with_gate(Gate::silu), Operand::column_sums_b), 2 * 129 * 4);
  EXPECT_EQ(span_bytes(g.with_zero_points_of_a(Zero::tensor).batched(3), Operand::zero_a), 3 * 4);
  const Gemm rows = g.grouped(5, Grouping::rows);
  EXPECT_EQ(span_bytes(rows, Operand::zero_a), 300 * 4);
  EXPECT_EQ(span_bytes(rows, Operand::column_sums_b), 5 * 129 * 4);
  EXPECT_EQ(dtype_of(g, Operand::zero_a), s32);
  EXPECT_EQ(address_alignment(g, Operand::column_sums_b), 4);
  const Gemm without = problem("int8 N T 300 129 260 out=bf16 scale=line");
  EXPECT_EQ(span_bytes(without, Operand::zero_a), 0);
  EXPECT_EQ(span_bytes(without, Operand::column_sums_b), 0);
  EXPECT_NE(
      Problem::of(problem("int8 N T 300 1 64 out=bf16 scale=line zero_a=line")).value().swapped,
      true)
      << "a D of one column stays in rows";
}

TEST(ZeroPointsOfA, TheReferenceKernelComputesThem) {
  for (const char* line :
       {"int8 N T 20 30 70 out=fp32 scale=line zero_a=line",
        "u8s8 T N 20 30 70 batch=2 out=bf16 scale=tensor:line zero_a=tensor epilogue=bias_col+silu",
        "s8u8 N N 20 30 70 batch=2 out=fp16 scale=line:none zero_a=line gate=gelu",
        "int8 N T 20 30 70 groups=3 grouped=rows out=bf16 scale=line zero_a=line",
        "int8 N T 20 30 70 groups=3 grouped=masked out=bf16 scale=line zero_a=tensor",
        "int8 N T 20 30 70 out=s8 scale=line zero_a=line scale_d=line"}) {
    const Gemm g = problem(line);
    const Problem canonical = Problem::of(g).value();
    const Verdict verdict = verify(g, [&](const Operands& operands) -> Status {
      const KilnArgs args = make_args(canonical, operands);
      for (int t = 0; t < 3; ++t) run_reference(canonical, args, nullptr, t, 3);
      return {};
    });
    EXPECT_TRUE(verdict) << line << ": " << verdict.error().detail;
  }
}

/// Products of rows that are their zero point plus one: sums of B's columns, exactly, though both
/// terms of the difference are beyond what fp32 holds.
TEST(ZeroPointsOfA, AreTakenOffExactly) {
  constexpr std::int64_t kM = 3, kN = 5, kK = 20001;
  const Gemm g = Gemm::row_major(kM, kN, kK, u8)
                     .transpose_b()
                     .output(fp32)
                     .scaled(Scale::line)
                     .with_zero_points_of_a();
  std::vector<std::uint8_t> a(kM * kK, 255);
  std::vector<std::int8_t> b(kN * kK);
  for (std::int64_t j = 0; j < kN; ++j)
    for (std::int64_t p = 0; p < kK; ++p)
      b[j * kK + p] = static_cast<std::int8_t>(p % 3 == 0 ? 127 - 2 * j : 126);
  const std::vector<std::int32_t> sums = column_sums(g, b.data()).value();
  const std::vector<std::int32_t> zeros(kM, 254);
  const std::vector<float> ones(std::max(kM, kN), 1);
  std::vector<float> d(kM * kN);
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.scale_a = operands.scale_b = ones.data();
  operands.zero_a = zeros.data(), operands.column_sums_b = sums.data();
  test::Opened engine;
  ASSERT_TRUE(engine->gemm(g, operands));
  for (std::int64_t i = 0; i < kM; ++i)
    for (std::int64_t j = 0; j < kN; ++j) EXPECT_EQ(d[i * kN + j], static_cast<float>(sums[j]));
  const auto plan = bare_plan(g, 1);
  std::ranges::fill(d, 0);
  ASSERT_TRUE(run_plan(*plan, operands));
  for (std::int64_t j = 0; j < kN; ++j) EXPECT_EQ(d[j], static_cast<float>(sums[j]));
}

TEST(ZeroPointsOfA, CallsNeedBothOperands) {
  const Gemm g = problem("int8 N T 4 5 64 out=bf16 scale=line zero_a=line");
  const auto plan = bare_plan(g, 1);
  std::vector<std::int8_t> a(4 * 64), b(5 * 64);
  std::vector<std::uint16_t> d(4 * 5);
  const std::vector<float> scales(8, 1);
  alignas(4) std::int32_t numbers[8] = {};
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.scale_a = operands.scale_b = scales.data();
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("zero_a = null"));
  operands.zero_a = numbers;
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("column_sums_b = null"));
  operands.column_sums_b = reinterpret_cast<const std::byte*>(numbers) + 2;
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("column_sums_b = "));
  operands.column_sums_b = numbers;
  EXPECT_TRUE(run_plan(*plan, operands));
  operands.zero_a = d.data();
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("zero_a = "));
}

TEST(ColumnSums, AreThoseOfEveryLayout) {
  for (const char* line : {"int8 N T 2 5 7 ldb=9 batch=2 stride_b=50", "int8 N N 2 5 7 ldb=9",
                           "s8u8 N T 2 5 7 order=rcrr", "s8u8 N N 2 5 7 order=rcrr batch=3",
                           "int8 N T 2 5 7 out=bf16 gate=silu", "int8 N N 2 5 7 packed_b=1",
                           "int8 N T 9 5 7 groups=3 grouped=rows"}) {
    const Gemm g = problem(line);
    Gemm plain = g;
    plain.b_packed = false;
    std::vector<std::uint8_t> b(static_cast<std::size_t>(span(plain, Operand::b)));
    std::mt19937 random(3);
    for (auto& x : b) x = static_cast<std::uint8_t>(random());
    const auto sums = column_sums(g, b.data());
    ASSERT_TRUE(sums) << line << ": " << sums.error().message;
    ASSERT_EQ(sums->size(), static_cast<std::size_t>(g.batch * g.columns_of_b()));
    const bool along_k = (g.b.order == Order::row_major) == g.b.transposed;
    for (std::int64_t batch = 0; batch < g.batch; ++batch)
      for (std::int64_t j = 0; j < g.columns_of_b(); ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < g.k; ++p)
          sum += load_element(g.b.dtype, b.data(),
                              batch * batch_stride(plain, Operand::b) +
                                  (along_k ? j * g.ldb() + p : p * g.ldb() + j));
        EXPECT_EQ((*sums)[batch * g.columns_of_b() + j], sum) << line;
      }
  }
}

TEST(ColumnSums, RefuseWhatTheyDoNotSum) {
  EXPECT_THAT(column_sums(problem("bf16 N T 2 5 7"), nullptr).error().message,
              HasSubstr("a.dtype = bf16, b.dtype = bf16: both must be integers"));
  EXPECT_THAT(column_sums(problem("int8 T N 2 5 7 groups=2 grouped=k"), nullptr).error().message,
              HasSubstr("grouping = k"));
  EXPECT_THAT(column_sums(problem("int8 N T 2 5 7"), nullptr).error().message,
              HasSubstr("b = null"));
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 2, 3, 4, KILN_S8);
  const std::int8_t b[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12};  // [k, n]
  std::int32_t sums[3] = {};
  EXPECT_EQ(kiln_column_sums(&desc, b, sums), KILN_OK) << kiln_last_error();
  EXPECT_THAT(sums, testing::ElementsAre(1 + 4 + 7 + 10, 2 + 5 + 8 + 11, 3 + 6 + 9 - 12));
  EXPECT_EQ(kiln_column_sums(&desc, b, nullptr), KILN_BAD_INPUT);
  EXPECT_THAT(kiln_last_error(), HasSubstr("sums"));
  EXPECT_EQ(kiln_column_sums(nullptr, b, sums), KILN_BAD_INPUT);
}

std::vector<float> random_values(std::int64_t count, std::uint64_t seed, float low, float high) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> some(low, high);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = some(random);
  return values;
}

TEST(QuantisedIntegers, AreTheNearestCodes) {
  constexpr std::int64_t kLines = 7, kK = 90;
  for (const DType type : {s8, u8})
    for (const Scale scale : {Scale::line, Scale::tensor})
      for (const bool zeros : {false, true}) {
        const auto values = random_values(kLines * kK, 4, type == u8 && !zeros ? 0 : -0.7F, 2);
        const auto q = (zeros ? quantise_asymmetric : quantise)(values, kLines, kK, type, scale);
        ASSERT_TRUE(q) << q.error().message;
        EXPECT_EQ(q->zeros.size(), !zeros ? 0u : scale == Scale::line ? 7u : 1u);
        EXPECT_EQ(q->scales.size(), scale == Scale::line ? 28u : 4u);
        const auto back = dequantise(*q);
        for (std::int64_t at = 0; at < kLines * kK; ++at) {
          const double step =
              load_element(fp32, q->scales.data(), scale == Scale::line ? at / kK : 0);
          ASSERT_LE(std::fabs(back[at] - values[at]), 0.501 * step) << name(type) << " " << at;
        }
      }
}

TEST(QuantisedIntegers, ZeroIsACode) {
  const std::vector<float> values{0, 5, 3, 4, 0, -2, -7, -1, 0, 0, 0, 0};
  for (const DType type : {s8, u8}) {
    const Quantised q = quantise_asymmetric(values, 3, 4, type, Scale::line).value();
    const auto back = dequantise(q);
    for (const int at : {0, 4, 8, 9, 10, 11}) EXPECT_EQ(back[at], 0) << name(type) << " " << at;
    const int first = type == u8 ? 0 : -128;
    EXPECT_THAT(q.zeros, testing::ElementsAre(first, first + 255, first));
    EXPECT_EQ(load_element(fp32, q.scales.data(), 2), 1) << "a row of zeros has scale 1";
  }
}

TEST(QuantisedIntegers, RefusalsNameTheField) {
  std::vector<float> values(64, 1);
  const auto message = [&](auto&& make, DType type, Scale scale) {
    const auto q = make(values, 2, 32, type, scale);
    return q ? std::string("accepted") : q.error().message;
  };
  EXPECT_THAT(message(quantise, s4, Scale::line), HasSubstr("type = s4: must be s8, u8 or a"));
  EXPECT_THAT(message(quantise, s32, Scale::line), HasSubstr("type = s32"));
  EXPECT_THAT(message(quantise, s8, Scale::mx_32), HasSubstr("scale = mx32: s8 has scales of"));
  EXPECT_THAT(message(quantise, u8, Scale::line_128), HasSubstr("scale = 1x128"));
  EXPECT_THAT(message(quantise_asymmetric, fp8_e4m3, Scale::line), HasSubstr("type = fp8_e4m3"));
  EXPECT_THAT(message(quantise_asymmetric, s8, Scale::none), HasSubstr("scale = none"));
  values[33] = -1;
  EXPECT_THAT(message(quantise, u8, Scale::line), HasSubstr("values: -1 in line 1 at 1: u8"));
  EXPECT_EQ(message(quantise_asymmetric, u8, Scale::line), "accepted");
}

/// An MLP in integers from fp32 weights: hidden activations are written as codes of s8 and read as
/// such.
TEST(QuantisedIntegers, AnMlpStaysInEightBits) {
  constexpr std::int64_t kTokens = 6, kHidden = 96, kInner = 120;
  const auto x = random_values(kTokens * kHidden, 1, -0.2F, 1);
  const auto w13 = random_values(2 * kInner * kHidden, 2, -0.3F, 0.3F);
  const auto w2 = random_values(kHidden * kInner, 3, -0.3F, 0.3F);
  const Quantised a = quantise_asymmetric(x, kTokens, kHidden, s8, Scale::line).value();
  const Quantised up = quantise(w13, 2 * kInner, kHidden, s8, Scale::line).value();
  const Quantised down = quantise(w2, kHidden, kInner, s8, Scale::line).value();
  const Gemm first = Gemm::row_major(kTokens, kInner, kHidden, s8)
                         .transpose_b()
                         .scaled(Scale::line)
                         .with_zero_points_of_a()
                         .with_gate(Gate::silu)
                         .quantised(s8, Scale::line);
  const Gemm second =
      Gemm::row_major(kTokens, kHidden, kInner, s8).transpose_b().scaled(Scale::line).output(fp32);
  const auto sums = column_sums(first, up.codes.data()).value();
  std::vector<std::int8_t> hidden(kTokens * kInner);
  std::vector<float> scales(kTokens), y(kTokens * kHidden);
  Operands operands{.a = a.codes.data(), .b = up.codes.data(), .d = hidden.data()};
  operands.scale_a = a.scales.data(), operands.scale_b = up.scales.data();
  operands.zero_a = a.zeros.data(), operands.column_sums_b = sums.data();
  operands.scale_d = scales.data();
  test::Opened engine;
  ASSERT_TRUE(engine->gemm(first, operands));
  Operands next{.a = hidden.data(), .b = down.codes.data(), .d = y.data()};
  next.scale_a = scales.data(), next.scale_b = down.scales.data();
  ASSERT_TRUE(engine->gemm(second, next));

  std::vector<float> exact_hidden(kTokens * kInner), exact(kTokens * kHidden);
  const Gemm plain = Gemm::row_major(kTokens, kInner, kHidden).transpose_b().with_gate(Gate::silu);
  ASSERT_TRUE(reference_gemm(plain, {.a = x.data(), .b = w13.data(), .d = exact_hidden.data()}));
  ASSERT_TRUE(reference_gemm(Gemm::row_major(kTokens, kHidden, kInner).transpose_b(),
                             {.a = exact_hidden.data(), .b = w2.data(), .d = exact.data()}));
  double error = 0, size = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    error += std::pow(y[i] - exact[i], 2);
    size += std::pow(exact[i], 2);
  }
  EXPECT_LT(std::sqrt(error / size), 0.02);
}

}  // namespace kiln::zero_points_of_a_test
