// Problems whose D is codes with scales: their rules, their text, where scales lie, and the kernel
// of last resort against quantise().
#include "generator/problem/quantised_d.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/plan.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/groups.h"
#include "generator/problem/problem.h"
#include "generator/space/space.h"
#include "kiln/numeric.hpp"
#include "kiln/quantise.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/opened_engine.h"
#include "tuner/verify/quantised.h"
#include "tuner/verify/reference.h"
#include "tuner/verify/verify.h"

namespace kiln::quantised_d_test {

using testing::HasSubstr;

constexpr Scale kKinds[] = {Scale::tensor, Scale::line, Scale::line_128};

TEST(QuantisedD, TextNamesTheScales) {
  for (const char* line :
       {"bf16 N T 5 200 64 out=fp8_e4m3 scale_d=1x128", "fp32 N N 5 200 64 out=s8 scale_d=line",
        "int8 N T 5 200 64 out=s8 scale_d=tensor",
        "fp8 N T 5 200 64 out=fp8_e4m3 scale=1x128:128x128 gate=silu scale_d=1x128",
        "bf16 N T 50 200 64 groups=3 grouped=rows out=fp8_e4m3 scale_d=1x128"}) {
    const auto g = parse_gemm(line);
    ASSERT_TRUE(g) << line << ": " << g.error().message;
    EXPECT_EQ(text(*g), line);
    EXPECT_FALSE(present(*g, Operand::c));
  }
}

TEST(QuantisedD, RefusalsNameTheField) {
  const auto message = [](const std::string& line) {
    const auto g = parse_gemm(line);
    return g ? "accepted " + line : g.error().message;
  };
  EXPECT_THAT(message("bf16 N T 5 200 64 out=fp8_e4m3"), HasSubstr("d.dtype = fp8_e4m3"));
  EXPECT_THAT(message("bf16 N T 5 200 64 scale_d=1x128"),
              HasSubstr("d.dtype = bf16: scale_d = 1x128 gives one of: fp8_e4m3 s8"));
  EXPECT_THAT(message("bf16 N T 5 200 64 out=s8 scale_d=mx32"),
              HasSubstr("scale_d = \"mx32\": must be none, tensor, line or 1x128"));
  EXPECT_THAT(message("fp64 N T 5 200 64 out=s8 scale_d=line"),
              HasSubstr("scale_d = line: accumulator = fp64"));
  EXPECT_THAT(message("bf16 N T 5 200 64 out=s8 scale_d=line epilogue=residual"),
              HasSubstr("scale_d = line: epilogue.residual = true"));
  EXPECT_THAT(message("bf16 N T 5 200 64 out=s8 scale_d=line order=column"),
              HasSubstr("scale_d = line: d.order = column"));
  EXPECT_THAT(message("bf16 N N 5 200 64 out=s8 scale_d=line packed_b=1"),
              HasSubstr("scale_d = line: b_packed = true"));
  Gemm g = Gemm::row_major(4, 5, 6).quantised(s8, Scale::square_128);
  EXPECT_THAT(validate(g).error().message,
              HasSubstr("scale_d = 128x128: must be none, tensor, line or 1x128"));
  g.d.q.scale = static_cast<Scale>(9);
  EXPECT_THAT(validate(g).error().message, HasSubstr("scale_d = 9"));
}

TEST(QuantisedD, ScalesLieAsThoseOfTheNextProductsA) {
  const Gemm g = Gemm::row_major(300, 260, 64, bf16).quantised(fp8_e4m3, Scale::line_128);
  const Gemm next =
      Gemm::row_major(300, 64, 260, fp8_e4m3).scaled(Scale::line_128, Scale::square_128);
  for (const std::int64_t batch : {1, 3}) {
    const Gemm first = g.batched(batch), second = next.batched(batch);
    EXPECT_EQ(extent(first, Operand::scale_d).lines, extent(second, Operand::scale_a).lines);
    EXPECT_EQ(extent(first, Operand::scale_d).length, extent(second, Operand::scale_a).length);
    EXPECT_EQ(span_bytes(first, Operand::scale_d), span_bytes(second, Operand::scale_a));
  }
  EXPECT_EQ(span_bytes(g.quantised(s8, Scale::tensor).batched(3), Operand::scale_d), 3 * 4);
  EXPECT_EQ(span_bytes(g.quantised(s8, Scale::line).batched(3), Operand::scale_d), 3 * 300 * 4);
  EXPECT_FALSE(is_output(g.quantised(s8, Scale::tensor), Operand::scale_d));
  EXPECT_TRUE(is_output(g, Operand::scale_d));
  EXPECT_EQ(Problem::of(Gemm::row_major(7, 1, 9).quantised(s8, Scale::line)).value().swapped,
            false);
}

TEST(QuantisedD, ScalesAreThoseOfQuantise) {
  EXPECT_EQ(scale_for(fp8_e4m3, 448), 1.0F);
  EXPECT_EQ(scale_for(s8, 254), 2.0F);
  EXPECT_EQ(scale_for(s8, 0), 1.0F);
  EXPECT_EQ(scale_for(s8, 0x1p-126F), 1.0F) << "its reciprocal could overflow";
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(scale_for(fp8_e4m3, infinity), infinity);
  EXPECT_EQ(larger_magnitude(2, std::numeric_limits<float>::quiet_NaN()), 2);
  EXPECT_EQ(larger_magnitude(2, -3), 3);
}

TEST(QuantisedD, CodesAndScalesHaveBounds) {
  EXPECT_TRUE(accepts_code(fp8_e4m3, 10, 0, 2, 5));
  EXPECT_FALSE(accepts_code(fp8_e4m3, 10, 0, 2, 5.5));
  EXPECT_TRUE(accepts_code(fp8_e4m3, 10, 1, 2, 5.5)) << "within the error";
  EXPECT_TRUE(accepts_code(s8, 1000, 0, 2, 127)) << "saturated";
  EXPECT_FALSE(accepts_code(s8, 1000, 0, 2, -128));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(accepts_code(fp8_e4m3, nan, 0, 2, nan));
  EXPECT_FALSE(accepts_code(fp8_e4m3, nan, 0, 2, 1));
  EXPECT_TRUE(accepts_code(s8, nan, 0, 2, 0));
  EXPECT_TRUE(accepts_code(fp8_e4m3, 7, 0, infinity, 0));
  EXPECT_TRUE(accepts_code(fp8_e4m3, infinity, 0, infinity, nan));
  SharedScale shared(s8);
  shared.add(-254, 0);
  shared.add(nan, 0);
  EXPECT_TRUE(shared.accepts(2));
  EXPECT_FALSE(shared.accepts(std::nextafter(2.0F, 3.0F)));
  EXPECT_FALSE(shared.accepts(1));
  EXPECT_TRUE(SharedScale(s8).accepts(1)) << "zeros";
  EXPECT_FALSE(SharedScale(s8).accepts(2));
}

/// Every kind and type of D, beside each pair of operands and what else reaches it.
std::vector<Gemm> problems() {
  std::vector<Gemm> out;
  int turn = 0;
  for (const TypeRow& row : kAllTypeRows)
    for (const Scale kind : kKinds)
      for (const DType type : {fp8_e4m3, s8}) {
        Gemm g = Gemm::row_major(8, 140, 32, row.a);
        g.b.dtype = row.b;
        g.accumulator = row.accumulator;
        if (needs_mx(row)) g = g.scaled(Scale::mx_32);
        if (has_weights(g)) g = g.with_weights(row.b, Scale::line_32);
        g = g.quantised(type, kind);
        ++turn;
        if (turn % 2 == 0) g = g.transpose_b();
        if (turn % 3 == 0) g = g.with_bias(Bias::per_column);
        if (turn % 4 == 0) g = g.batched(2);
        if (turn % 5 == 0) g = g.with_gate(Gate::silu);
        if (turn % 7 == 0) g = g.grouped(3, turn % 2 == 0 ? Grouping::rows : Grouping::masked);
        if (validate(g)) out.push_back(g);
      }
  return out;
}

TEST(QuantisedD, TheReferenceKernelComputesThemAll) {
  const auto all = problems();
  EXPECT_GT(all.size(), 200u);
  for (const Gemm& g : all) {
    const Problem problem = Problem::of(g).value();
    const Verdict verdict = verify(g,
                                   [&](const Operands& operands) -> Status {
                                     const KilnArgs args = make_args(problem, operands);
                                     for (int t = 0; t < 3; ++t)
                                       run_reference(problem, args, nullptr, t, 3);
                                     return {};
                                   },
                                   {.effort = Effort::usual});
    EXPECT_TRUE(verdict) << text(g) << ": " << verdict.error().detail;
  }
}

TEST(QuantisedD, TheVerifierMissesNoWrongScaleOrCode) {
  for (const Scale kind : {Scale::line, Scale::line_128})
    for (const bool scale : {false, true}) {
      const Gemm g = Gemm::row_major(24, 200, 40, bf16).quantised(fp8_e4m3, kind);
      const Problem problem = Problem::of(g).value();
      const Verdict verdict = verify(g, [&](const Operands& operands) -> Status {
        run_reference(problem, make_args(problem, operands), nullptr, 0, 1);
        // The last one of either, by its least bit.
        auto* const last = scale ? static_cast<std::uint8_t*>(operands.scale_d) +
                                       span_bytes(g, Operand::scale_d) - 4
                                 : static_cast<std::uint8_t*>(operands.d) + span(g, Operand::d) - 1;
        *last ^= 1;
        return {};
      });
      EXPECT_FALSE(verdict) << text(g) << (scale ? " scale" : " code");
    }
}

/// The reference kernel's codes of a product with the identity are those of quantise().
TEST(QuantisedD, CodesOfValuesAreThoseOfQuantise) {
  constexpr std::int64_t kRows = 9, kColumns = 300;
  std::vector<float> values(kRows * kColumns), identity(kColumns * kColumns);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i / kColumns == 4 ? 0 : 50 * std::sin(static_cast<float>(i));
  for (std::int64_t i = 0; i < kColumns; ++i) identity[i * kColumns + i] = 1;
  const Gemm g = Gemm::row_major(kRows, kColumns, kColumns).quantised(fp8_e4m3, Scale::line_128);
  std::vector<std::byte> codes(kRows * kColumns);
  std::vector<float> scales(kRows * 3);
  Operands operands{.a = values.data(), .b = identity.data(), .d = codes.data()};
  operands.scale_d = scales.data();
  test::Opened engine;
  ASSERT_TRUE(engine->gemm(g, operands));
  EXPECT_EQ(engine->plan(g)->match(), Match::reference);
  const Quantised expected = quantise(values, kRows, kColumns, fp8_e4m3, Scale::line_128).value();
  EXPECT_EQ(std::memcmp(scales.data(), expected.scales.data(), expected.scales.size()), 0);
  int different = 0;  // a quotient that the reciprocal rounds to the other side of a tie
  for (std::size_t i = 0; i < codes.size(); ++i) different += codes[i] != expected.codes[i];
  EXPECT_LE(different, 2);
}

/// SwiGLU: the first product's codes and scales are the second one's A as they are.
TEST(QuantisedD, TheNextProductReadsWhatTheFirstWrote) {
  constexpr std::int64_t kRows = 6, kHidden = 256, kInner = 200;
  std::vector<float> x(kRows * kHidden), up(2 * kInner * kHidden), down(kHidden * kInner);
  const auto fill = [](std::vector<float>& to, int step) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<float>(static_cast<int>(i * step % 211) - 105) / 128;
  };
  fill(x, 17), fill(up, 23), fill(down, 29);
  const auto of = [](const std::vector<float>& v, std::int64_t lines, std::int64_t k, Scale s) {
    return quantise(v, lines, k, fp8_e4m3, s).value();
  };
  const Quantised a = of(x, kRows, kHidden, Scale::line_128);
  const Quantised b = of(up, 2 * kInner, kHidden, Scale::square_128);
  const Quantised w = of(down, kHidden, kInner, Scale::square_128);
  const Gemm first = Gemm::row_major(kRows, kInner, kHidden, fp8_e4m3)
                         .transpose_b()
                         .scaled(Scale::line_128, Scale::square_128)
                         .with_gate(Gate::silu);
  const Gemm second = Gemm::row_major(kRows, kHidden, kInner, fp8_e4m3)
                          .transpose_b()
                          .scaled(Scale::line_128, Scale::square_128)
                          .output(fp32);
  std::vector<std::byte> codes(kRows * kInner);
  std::vector<float> scales(kRows * 2), hidden(kRows * kInner), result(kRows * kHidden);
  test::Opened engine;
  Operands operands{.a = a.codes.data(), .b = b.codes.data(), .d = codes.data()};
  operands.scale_a = a.scales.data(), operands.scale_b = b.scales.data();
  operands.scale_d = scales.data();
  ASSERT_TRUE(engine->gemm(first.quantised(fp8_e4m3, Scale::line_128), operands));
  operands.d = hidden.data(), operands.scale_d = nullptr;
  ASSERT_TRUE(engine->gemm(first.output(fp32), operands));
  Operands last{.a = codes.data(), .b = w.codes.data(), .d = result.data()};
  last.scale_a = scales.data(), last.scale_b = w.scales.data();
  ASSERT_TRUE(engine->gemm(second, last));
  const std::vector<float> weights = dequantise(w);
  for (std::int64_t i = 0; i < kRows; ++i)
    for (std::int64_t j = 0; j < kHidden; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t p = 0; p < kInner; ++p) {
        const double product = double(hidden[i * kInner + p]) * weights[j * kInner + p];
        sum += product;
        size += std::fabs(product);
      }
      ASSERT_NEAR(result[i * kHidden + j], sum, size / 16) << "e4m3 has four bits";
    }
}

TEST(QuantisedD, CallsNeedScalesOfTheirOwn) {
  const Gemm g = Gemm::row_major(4, 140, 8).quantised(s8, Scale::line_128);
  const auto plan = bare_plan(g, 1);
  std::vector<float> a(4 * 8), b(8 * 140);
  alignas(4) std::byte d[4 * 140];
  alignas(4) float scales[8] = {};
  Operands operands{.a = a.data(), .b = b.data(), .d = d};
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("scale_d = null"));
  operands.scale_d = reinterpret_cast<std::byte*>(scales) + 2;
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("scale_d = "));
  operands.scale_d = scales;
  EXPECT_TRUE(run_plan(*plan, operands));
  operands.scale_d = b.data() + 100;
  EXPECT_THAT(run_plan(*plan, operands).error().message,
              testing::AllOf(HasSubstr("overlaps scale_d = "), HasSubstr("which is written")));
  operands.scale_d = d;
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("overlaps"));
  operands.scale_d = scales;
  operands.beta = 1;
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("has no C"));
}

// The next product reads a scale for each row, whatever its k is.
TEST(QuantisedD, RowsWithoutElementsHaveScalesOfOne) {
  const Gemm line = Gemm::row_major(3, 0, 8).quantised(s8, Scale::line);
  const Gemm rows = Gemm::row_major(6, 0, 8).quantised(s8, Scale::line);
  const std::vector<std::int32_t> ends{1, 4}, counts{2, 9}, of_k{3, 8};
  struct {
    Gemm gemm;
    const std::vector<std::int32_t>* groups;
    std::vector<float> expected;
  } const cases[] = {
      {line, nullptr, {1, 1, 1, -1, -1, -1, -1}},
      {line.batched(2), nullptr, {1, 1, 1, 1, 1, 1, -1}},
      {line.grouped(2, Grouping::k), &of_k, {1, 1, 1, 1, 1, 1, -1}},
      {rows.grouped(2, Grouping::rows), &ends, {1, 1, 1, 1, -1, -1, -1}},
      {line.grouped(2, Grouping::masked), &counts, {1, 1, -1, 1, 1, 1, -1}},
      {Gemm::row_major(0, 0, 8).quantised(s8, Scale::line), nullptr, {-1, -1, -1, -1, -1, -1, -1}},
      {Gemm::row_major(3, 0, 8).quantised(s8, Scale::line_128),
       nullptr,
       {-1, -1, -1, -1, -1, -1, -1}},
  };
  for (const auto& [gemm, groups, expected] : cases) {
    const auto plan = bare_plan(gemm, 1);
    std::vector<float> scales(7, -1);
    Operands operands;
    if (groups != nullptr) operands.groups = groups->data();
    if (expected[0] > 0) {
      EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("scale_d = null"))
          << text(gemm);
    }
    operands.scale_d = scales.data();
    ASSERT_TRUE(run_plan(*plan, operands)) << text(gemm);
    EXPECT_EQ(scales, expected) << text(gemm);
    if (grouped(gemm)) continue;
    std::ranges::fill(scales, -1.0F);
    ASSERT_TRUE(reference_gemm(gemm, operands)) << text(gemm);
    EXPECT_EQ(scales, expected) << text(gemm) << ", by the reference of the verification";
  }
}

TEST(QuantisedD, FamiliesWithoutThemAreRefusedByName) {
  const Problem problem =
      Problem::of(parse_gemm("fp32 N T 64 64 64 out=s8 scale_d=line").value()).value();
  EXPECT_EQ(broken_rule(problem, caps_named("sm_90a").value(), CudaSimt{}),
            "the family writes a D with such scales");
  EXPECT_EQ(broken_rule(problem, caps_named("gfx942").value(), HipMfma{}),
            "the family writes a D with such scales");
  const Problem mma =
      Problem::of(parse_gemm("bf16 N T 64 64 64 out=s8 scale_d=1x128").value()).value();
  EXPECT_EQ(broken_rule(mma, caps_named("sm_80").value(), CudaMma{}),
            "the family writes a D with such scales");
}

}  // namespace kiln::quantised_d_test
