// Calls with an expression behind the product: through the engine, the plain loop, the C interface
// and a database, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "cli/commands/random_expression.h"
#include "engine/plan.h"
#include "kiln/kiln.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/few.h"
#include "support/opened_engine.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "tuner/verify/verify.h"

namespace kiln::expression_calls_test {

using test::Opened;
using testing::HasSubstr;

Gemm problem(std::string_view line) { return parse_gemm(line).value(); }

constexpr const char* kGelu =
    "fp32 N T 37 45 64 epilogue=d=gelu(acc+b[n])*s[m]+r[n,m]:bf16:ld=40+c[]";

TEST(ExpressionCalls, RunBeforeAndAfterTheyAreTuned) {
  Opened kiln;
  const Gemm gemm = problem(kGelu);
  const Verdict untuned = test::check(*kiln.engine, gemm);
  EXPECT_TRUE(untuned) << test::why(untuned);
  const auto tuned = kiln->tune(gemm, test::few(6));
  ASSERT_TRUE(tuned) << tuned.error().message;
  const Verdict verdict = test::check(*kiln.engine, gemm);
  EXPECT_TRUE(verdict) << test::why(verdict);
  // Out of the file, by another process's names.
  kiln.open();
  const Gemm again =
      problem("fp32 N T 37 45 64 epilogue=d=gelu(acc+B[n])*S[m]+R[n,m]:bf16:ld=40+C[]");
  const auto plan = kiln->plan(again);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->match(), Match::exact);
  EXPECT_EQ(plan->config(), tuned->config);
  EXPECT_THAT(kiln->explain(again).value(), HasSubstr("d=gelu(acc+x0[n])*x1[m]+x2[n,m]:bf16"));
}

TEST(ExpressionCalls, AnotherSizeRunsTheTunedCode) {
  Opened kiln;
  ASSERT_TRUE(kiln->tune(problem("fp32 N T 64 96 128 epilogue=d=relu(acc)*b[n]"), test::few(6)));
  const Gemm other = problem("fp32 N T 61 95 120 epilogue=d=relu(acc)*b[n]");
  const auto plan = kiln->plan(other);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->match(), Match::nearest);
  const Verdict verdict = test::check(*kiln.engine, other);
  EXPECT_TRUE(verdict) << test::why(verdict);
}

TEST(ExpressionCalls, ThePlainLoopIsRight) {
  test::RandomGemm random(test::seed_of_run() + 3, 40);
  cli::Draw draw(test::seed_of_run());
  int checked = 0;
  for (int i = 0; i < 60; ++i) {
    Gemm gemm = random.next();
    gemm.epilogue = {};
    gemm = gemm.with_expression(Expression::parse(cli::random_expression(draw)).value());
    if (!validate(gemm)) continue;  // scales of D
    ++checked;
    const Problem canonical = Problem::of(gemm).value();
    const Verdict verdict = verify(gemm, [&](const Operands& operands) -> Status {
      const KilnArgs args = make_args(canonical, operands);
      for (int thread = 0; thread < 2; ++thread) run_reference(canonical, args, nullptr, thread, 2);
      return {};
    });
    EXPECT_TRUE(verdict) << text(gemm) << ": " << test::why(verdict);
  }
  EXPECT_GT(checked, 40);
}

TEST(ExpressionCalls, OperandsAreCheckedBeforeAnythingRuns) {
  Opened kiln;
  const Gemm gemm = problem("fp32 N N 4 4 4 epilogue=d=acc*s[m]+r[m,n]");
  std::array<float, 16> a{}, b{}, d{}, r{};
  std::array<float, 4> s{};
  const auto said = [&](const Operands& operands) {
    const Status status = kiln->gemm(gemm, operands);
    return status ? std::string("done") : status.error().message;
  };
  Operands call{.a = a.data(), .b = b.data(), .d = d.data(), .extra = {s.data(), r.data()}};
  EXPECT_EQ(said(call), "done");
  call.extra[1] = nullptr;
  EXPECT_THAT(said(call), HasSubstr("x1 = null"));
  call.extra[1] = d.data() + 3;
  EXPECT_THAT(said(call), HasSubstr("x1 = "));
  EXPECT_THAT(said(call), HasSubstr("overlaps d"));
}

TEST(ExpressionCalls, CParsesAndCallsThem) {
  int expression = -1;
  EXPECT_EQ(kiln_expression_parse("d=foo(acc)", &expression), KILN_BAD_INPUT);
  EXPECT_THAT(kiln_last_error(), HasSubstr("column 3: no function is called foo"));
  EXPECT_EQ(kiln_expression_parse(nullptr, &expression), KILN_BAD_INPUT);
  EXPECT_EQ(kiln_expression_parse("d=acc", nullptr), KILN_BAD_INPUT);
  ASSERT_EQ(kiln_expression_parse("d=max(acc*scale[],b[n])", &expression), KILN_OK);
  EXPECT_STREQ(kiln_expression_text(expression), "d=max(acc*x0[],x1[n])");
  EXPECT_EQ(kiln_expression_text(0), nullptr);
  EXPECT_EQ(kiln_expression_text(1 << 30), nullptr);

  const TempDir dir;
  kiln_options options;
  kiln_options_init(&options);
  const std::string file = (dir / "kiln.db").string();
  options.database = file.c_str();
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 2, 3, 2, KILN_FP32);
  desc.expression = expression;
  const float a[] = {1, 2, 3, 4}, b[] = {1, 0, 1, 0, 1, 1}, bound[] = {8, 7, 0}, scale = 2;
  float d[6] = {};
  kiln_operands operands;
  kiln_operands_init(&operands);
  operands.a = a, operands.b = b, operands.d = d;
  operands.extra[0] = &scale, operands.extra[1] = bound;
  ASSERT_EQ(kiln_gemm(engine, &desc, &operands), KILN_OK) << kiln_last_error();
  EXPECT_THAT(d, testing::ElementsAre(8, 7, 6, 8, 8, 14));
  desc.expression = 1 << 30;
  EXPECT_EQ(kiln_gemm(engine, &desc, &operands), KILN_BAD_INPUT);
  EXPECT_THAT(kiln_last_error(), HasSubstr("no such expression"));
  kiln_close(engine);
}

}  // namespace kiln::expression_calls_test
