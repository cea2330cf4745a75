// Products of integers into a D of 32 bits with whole alpha and beta: exact in 32 bits, in the
// kernel of last resort, the verification's reference, the verification's verdict and a compiled
// kernel.
#include "generator/problem/whole_factors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "generator/problem/gemm_types.h"
#include "kiln/numeric.hpp"
#include "support/opened_engine.h"
#include "tuner/verify/data.h"
#include "tuner/verify/reference.h"
#include "tuner/verify/verify.h"

namespace kiln::whole_factors_test {

using testing::ElementsAre;

TEST(WholeFactors, AreNumbersOf32Bits) {
  EXPECT_EQ(whole_factor(0), 0u);
  EXPECT_EQ(whole_factor(-0.0), 0u);
  EXPECT_EQ(whole_factor(3), 3u);
  EXPECT_EQ(whole_factor(-1), 0xffffffffu);
  EXPECT_EQ(whole_factor(-0x1p31), 0x80000000u);
  EXPECT_EQ(whole_factor(0x1p31 - 1), 0x7fffffffu);
  for (const double x : {0.5, -1.25, 0x1p31, -0x1p31 - 1, 1e300, double(INFINITY), double(NAN)})
    EXPECT_FALSE(whole_factor(x)) << x;
}

TEST(WholeFactors, AreThoseOfIntegerEpiloguesAlone) {
  const Gemm plain = Gemm::row_major(2, 3, 4, s8);
  EXPECT_TRUE(whole_factors(plain, 2, -1));
  EXPECT_FALSE(whole_factors(plain, 0.5, 1));
  EXPECT_FALSE(whole_factors(plain, 1, 0.5));
  EXPECT_TRUE(whole_factors(plain.with_activation(Activation::relu).with_residual(), 1, 1));
  EXPECT_FALSE(whole_factors(plain.with_activation(Activation::silu), 1, 1));
  EXPECT_FALSE(whole_factors(plain.with_bias(Bias::per_row), 1, 1));
  for (const DType d : {fp32, s8, bf16}) EXPECT_FALSE(whole_factors(plain.output(d), 1, 1));
}

/// One call of one element in each of four columns.
struct Call {
  Gemm gemm = Gemm::row_major(1, 4, 1, s8);
  std::vector<std::int8_t> a{1}, b{9, -9, 100, -100};
  std::vector<std::int32_t> c{16777216, 16777217, 2147483647, -2147483647}, residual{1, 3, 5, 7};
  double alpha = 1, beta = 1;

  Operands operands(std::int32_t* d) const {
    Operands o{.a = a.data(), .b = b.data(), .c = c.data(), .d = d, .alpha = alpha, .beta = beta};
    if (gemm.epilogue.residual) o.residual = residual.data();
    return o;
  }
  std::vector<std::int32_t> by_plain_loop() const {
    std::vector<std::int32_t> d(4, -77);
    EXPECT_TRUE(run_plan(*bare_plan(gemm, 1), operands(d.data())));
    return d;
  }
  std::vector<std::int32_t> by_reference() const {
    std::vector<std::int32_t> d(4, -77);
    EXPECT_TRUE(reference_gemm(gemm, operands(d.data())));
    return d;
  }
  std::vector<std::int32_t> by_engine(test::Opened& engine) const {
    std::vector<std::int32_t> d(4, -77);
    const Status ran = engine->gemm(gemm, operands(d.data()));
    EXPECT_TRUE(ran) << ran.error().message;
    EXPECT_NE(engine->plan(gemm)->match(), Match::reference);
    return d;
  }
};

TEST(WholeFactors, LoseNoBit) {
  test::Opened engine;
  const auto each = [&](const Call& call, const auto& expected) {
    EXPECT_THAT(call.by_plain_loop(), expected);
    EXPECT_THAT(call.by_reference(), expected);
    EXPECT_THAT(call.by_engine(engine), expected);
  };
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  Call call;
  call.c[2] -= 100, call.c[3] += 99;
  each(call, ElementsAre(16777225, 16777208, 2147483647, kLeast));
  call.alpha = 0;  // C stays as it is
  each(call, ElementsAre(16777216, 16777217, 2147483547, -2147483548));
  call.alpha = -3, call.beta = -1;
  each(call, ElementsAre(-16777243, -16777190, 2147483449, -2147483448));  // the last two wrap
  call.alpha = 16777217, call.beta = 0;
  each(call, ElementsAre(150994953, -150994953, 1677721700, -1677721700));
}

TEST(WholeFactors, ClipAndAddWithoutRounding) {
  test::Opened engine;
  Call call;
  call.c = {16777216, -16777217, 5, -5};
  call.gemm = call.gemm.with_activation(Activation::relu).with_residual();
  call.residual = {16777217, 16777219, 1 << 30, (1 << 30) + 1};
  const auto expected = ElementsAre(33554442, 16777219, 105 + (1 << 30), (1 << 30) + 1);
  EXPECT_THAT(call.by_plain_loop(), expected);
  EXPECT_THAT(call.by_reference(), expected);
  EXPECT_THAT(call.by_engine(engine), expected);
}

TEST(WholeFactors, OfFractionsAreFloats) {
  Call call;
  call.alpha = 0.5, call.beta = 2;
  call.c = {1, 2, 3, 4};
  EXPECT_THAT(call.by_plain_loop(), ElementsAre(6, 0, 56, -42)) << "rounded to even";
  EXPECT_THAT(call.by_reference(), call.by_plain_loop());
}

// What verification knows of a kernel: C beyond fp32's 24 bits, and no tolerance.
TEST(WholeFactors, TheVerificationSeesAKernelThatRounds) {
  for (const Gemm& gemm :
       {Gemm::row_major(20, 30, 40, s8), Gemm::row_major(20, 30, 40, s8).with_residual(),
        Gemm::row_major(20, 30, 40, u8).with_activation(Activation::relu)}) {
    const auto plan = bare_plan(gemm, 1);
    const auto verdict = [&](bool rounds) {
      return verify(gemm,
                    [&](const Operands& operands) -> Status {
                      if (Status ran = run_plan(*plan, operands); !ran || !rounds) return ran;
                      auto* const d = static_cast<std::int32_t*>(operands.d);
                      for (std::int64_t i = 0; i < span(gemm, Operand::d); ++i)
                        d[i] = static_cast<std::int32_t>(static_cast<float>(d[i]));
                      return {};
                    },
                    {.effort = Effort::full});
    };
    const Verdict right = verdict(false);
    EXPECT_TRUE(right) << text(gemm) << ": " << right.error().detail;
    EXPECT_FALSE(verdict(true)) << text(gemm);
  }
}

}  // namespace kiln::whole_factors_test
