// Calls with an expression behind the product: through the engine, the plain loop, the C interface
// and a database, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "cli/commands/random_expression.h"
#include "engine/plan.h"
#include "kiln/kiln.h"
#include "kiln/numeric.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reductions.h"
#include "runtime/cpu/reference_expression.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/drawn_gates.h"
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
  // 45 and 37 numbers of 4 bytes, 44 lines of 40 and one of 37 of 2, and one number.
  EXPECT_THAT(kiln->explain(again).value(),
              HasSubstr("epilogue:  reads 0.00393 MB, stores 0 MB beside D\n"));
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

// What a kernel keeps is a number, whatever is made of it.
TEST(ExpressionCalls, ReadReductionsBesideComparisons) {
  Opened kiln;
  for (const char* epilogue : {"s[m]=max(abs(acc));d=where(acc<0,s[m],0)",
                               "d=where(acc>sum[n](acc)/37,acc,relu(acc)*b[n])",
                               "d=max(acc,min[](acc)*0.5)-exp(-abs(acc))"}) {
    const Gemm gemm = problem(fmt::format("fp32 N T 37 45 64 epilogue={}", epilogue));
    const Verdict verdict = test::check(*kiln.engine, gemm);
    EXPECT_TRUE(verdict) << epilogue << ": " << test::why(verdict);
  }
}

TEST(ExpressionCalls, ANewOneRunsTheKernelOfTheProduct) {
  Opened kiln;
  const auto tuned = kiln->tune(problem("fp32 N T 64 96 128"), test::few(6));
  ASSERT_TRUE(tuned) << tuned.error().message;
  const Gemm gemm = problem("fp32 N T 64 96 128 epilogue=d=exp(acc-logsumexp[m](acc))");
  const auto plan = kiln->plan(gemm);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->match(), Match::nearest);
  EXPECT_EQ(plan->config(), tuned->config);
  const Verdict verdict = test::check(*kiln.engine, gemm);
  EXPECT_TRUE(verdict) << test::why(verdict);
  EXPECT_THAT(kiln->explain(gemm).value(), HasSubstr("keeps 0.0246 MB until all are reduced"));
}

Verdict verdict_on_plain_loop(const Gemm& gemm) {
  const Problem canonical = Problem::of(gemm).value();
  return verify(gemm, [&](const Operands& operands) -> Status {
    const auto run = [&](const HostArgs& args) -> Status {
      for (int thread = 0; thread < 2; ++thread) run_reference(canonical, args, nullptr, thread, 2);
      return {};
    };
    return reducing(make_args(canonical, operands), run,
                    [&](const KilnArgs& args) { reduce_reference(canonical, args, 2); });
  });
}

TEST(ExpressionCalls, ThePlainLoopIsRight) {
  test::RandomGemm random(test::seed_of_run() + 3, 40);
  cli::Draw draw(test::seed_of_run());
  int checked = 0;
  for (int i = 0; i < 60; ++i) {
    Gemm gemm = random.next();
    gemm.epilogue = {};
    gemm =
        gemm.with_expression(Expression::parse(cli::random_expression(draw, gemm.d.order)).value());
    if (!validate(gemm)) continue;  // scales of D
    ++checked;
    const Verdict verdict = verdict_on_plain_loop(gemm);
    EXPECT_TRUE(verdict) << text(gemm) << ": " << test::why(verdict);
  }
  EXPECT_GT(checked, 40);
}

TEST(ExpressionCalls, ThePlainLoopComputesGates) {
  test::RandomGemm random(test::seed_of_run() + 4, 40);
  cli::Draw draw(test::seed_of_run() + 1);
  int checked = 0;
  for (int i = 0; i < 60; ++i) {
    const Gemm gemm = test::gated_by_drawn(random.next(), draw);
    if (!validate(gemm)) continue;  // scales of D, integers
    ++checked;
    const Verdict verdict = verdict_on_plain_loop(gemm);
    EXPECT_TRUE(verdict) << text(gemm) << ": " << test::why(verdict);
  }
  EXPECT_GT(checked, 20);
}

TEST(ExpressionCalls, AGateRunsTheKernelOfAnother) {
  Opened kiln;
  const auto tuned = kiln->tune(problem("fp32 N T 64 96 128 gate=silu"), test::few(6));
  ASSERT_TRUE(tuned) << tuned.error().message;
  const Gemm gemm = problem("fp32 N T 64 96 128 epilogue=d=exp(acc0-max[m](acc0))*acc1");
  const auto plan = kiln->plan(gemm);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->match(), Match::nearest);
  EXPECT_EQ(plan->config(), tuned->config);
  const Verdict verdict = test::check(*kiln.engine, gemm);
  EXPECT_TRUE(verdict) << test::why(verdict);
  EXPECT_THAT(kiln->explain(gemm).value(), HasSubstr("keeps 0.0492 MB until all are reduced"));
  const auto again = kiln->tune(gemm, test::few(6));
  ASSERT_TRUE(again) << again.error().message;
  kiln.open();
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact);
}

TEST(ExpressionCalls, ThePlainLoopIsRightBesideGroups) {
  for (const char* keys :
       {"rows epilogue=d=gelu(acc+b[batch,n])+r[m,n]+m;q[m]=sum(acc)",
        "rows gather=rows rows_of_a=9 scatter=rows rows_of_d=50 epilogue=y=acc*t[batch,n];"
        "s[m,n/8]=max(abs(y))+1;d=y/s[m,n/8]-sum[m](y)",
        "rows scatter=weighted rows_of_d=20 epilogue=q[m]=max(acc);z[m,n]=acc;d=acc*b[batch,n]+m",
        "rows scatter=add rows_of_d=20 epilogue=d=acc-max[m](acc)",
        "masked epilogue=d=acc-max[m](acc)+b[batch,n]*m;q[batch,m]=sum(acc)",
        "k epilogue=d=acc-sum[n](acc)+m;s[batch,n]=max(acc);a[batch]=sum(acc)"}) {
    const Gemm gemm = problem(fmt::format("fp32 N T 37 45 20 groups=4 grouped={}", keys));
    const Problem canonical = Problem::of(gemm).value();
    const Verdict verdict = verify(gemm, [&](const Operands& operands) -> Status {
      const HostArgs args = make_args(canonical, operands);
      for (int thread = 0; thread < 2; ++thread)
        if (Status ran = run_reference(canonical, args, nullptr, thread, 2); !ran) return ran;
      return {};
    });
    EXPECT_TRUE(verdict) << text(gemm) << ": " << test::why(verdict);
    // And by the kernels that an engine chooses.
    Opened kiln;
    const Verdict called = test::check(*kiln.engine, gemm);
    EXPECT_TRUE(called) << text(gemm) << ": " << test::why(called);
  }
}

constexpr const char* kOutputs =
    "fp32 N N 3 4 2 epilogue=y=acc+r[m,n];d=relu(y);q[m]=sum(y*y);t[n,m]:fp16=y;a[]=max(abs(y));"
    "l[n]=logsumexp(y)";

/// A = [1 2; 3 4; 5 6], B = [1 0 -1 0; 0 1 0 -1], r = 1, through `call`: by hand.
template <typename Call>
void expect_outputs(Call&& call) {
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, -1, 0, 0, 1, 0, -1};
  const std::vector<float> r(12, 1.0F);
  std::array<float, 12> d{};
  std::array<float, 3> q{};
  std::array<std::uint16_t, 12> t{};
  std::array<float, 4> l{};
  float largest = 0;
  call(Operands{.a = a,
                .b = b,
                .d = d.data(),
                .extra = {r.data()},
                .outputs = {q.data(), t.data(), &largest, l.data()}});
  EXPECT_THAT(d, testing::ElementsAre(2, 3, 0, 0, 4, 5, 0, 0, 6, 7, 0, 0));
  EXPECT_THAT(q, testing::ElementsAre(4 + 9 + 0 + 1, 16 + 25 + 4 + 9, 36 + 49 + 16 + 25));
  EXPECT_EQ(largest, 7);
  const float y[] = {2, 3, 0, -1, 4, 5, -2, -3, 6, 7, -4, -5};
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t column = 0; column < 4; ++column)
      EXPECT_EQ(t.at(column * 3 + row), float_to_fp16(y[row * 4 + column]));
  for (std::size_t column = 0; column < 4; ++column)
    EXPECT_NEAR(l.at(column),
                std::log(std::exp(y[column]) + std::exp(y[4 + column]) + std::exp(y[8 + column])),
                1e-5);
}

TEST(ExpressionCalls, StoreBesideD) {
  Opened kiln;
  const Gemm gemm = problem(kOutputs);
  const auto call = [&](const Operands& operands) {
    const Status ran = kiln->gemm(gemm, operands);
    ASSERT_TRUE(ran) << ran.error().message;
  };
  expect_outputs(call);
  ASSERT_TRUE(kiln->tune(gemm, test::few(4)));
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact);
  expect_outputs(call);
}

TEST(ExpressionCalls, ReadWhatTheyReduce) {
  Opened kiln;
  const Gemm gemm = problem("fp32 N N 3 4 2 epilogue=s[m]=max(abs(acc))/2;d=acc/s[m]*b[n]");
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, -1, 0, 0, 1, 0, -1}, factor[] = {1, 1, 2, 4};
  const auto run = [&] {
    std::array<float, 12> d{};
    std::array<float, 3> s{};
    const Status ran =
        kiln->gemm(gemm, {.a = a, .b = b, .d = d.data(), .extra = {factor}, .outputs = {s.data()}});
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_THAT(s, testing::ElementsAre(1, 2, 3));
    const float third = 5.0F / 3;
    EXPECT_THAT(d,
                testing::Pointwise(testing::FloatEq(), {1.0F, 2.0F, -2.0F, -8.0F, 1.5F, 2.0F, -3.0F,
                                                        -8.0F, third, 2.0F, -2 * third, -8.0F}));
  };
  run();
  ASSERT_TRUE(kiln->tune(gemm, test::few(4)));
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact);
  run();
}

TEST(ExpressionCalls, OutputsAreTheSameBitsOnAnyThreads) {
  Opened kiln;
  const Gemm gemm = problem("fp32 N N 70 300 20 epilogue=d=acc;q[m]=sum(acc);s[n]=sum(acc)");
  std::vector<float> a(70 * 20), b(20 * 300), d(70 * 300);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 0.1F * static_cast<float>(i % 17);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 0.3F * static_cast<float>(i % 13) - 1;
  std::vector<std::vector<float>> seen;
  for (const int threads : {1, 2}) {
    std::vector<float> q(370);
    ASSERT_TRUE(kiln->gemm(gemm, {.a = a.data(),
                                  .b = b.data(),
                                  .d = d.data(),
                                  .threads = threads,
                                  .outputs = {q.data(), q.data() + 70}}));
    seen.push_back(q);
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(ExpressionCalls, NeedNoDWhereNoneIsStored) {
  Opened kiln;
  const Gemm gemm = problem("fp32 N N 2 3 1 epilogue=q[m]=sum(acc);z[n,m]=acc+1");
  const std::array<float, 2> a{1, 2};
  const std::array<float, 3> b{1, 10, 100};
  const auto run = [&] {
    std::array<float, 2> q{};
    std::array<float, 6> z{};
    const Status ran =
        kiln->gemm(gemm, {.a = a.data(), .b = b.data(), .outputs = {q.data(), z.data()}});
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_THAT(q, testing::ElementsAre(111, 222));
    EXPECT_THAT(z, testing::ElementsAre(2, 3, 11, 21, 101, 201));
  };
  run();
  ASSERT_TRUE(kiln->tune(gemm, test::few(4)));
  run();
}

TEST(ExpressionCalls, OutputsAreCheckedBeforeAnythingRuns) {
  Opened kiln;
  const Gemm gemm = problem("fp32 N N 4 4 4 epilogue=d=acc;q[m]=sum(acc)");
  std::array<float, 16> a{}, b{}, d{};
  std::array<float, 4> q{};
  const auto said = [&](const Operands& operands) {
    const Status status = kiln->gemm(gemm, operands);
    return status ? std::string("done") : status.error().message;
  };
  Operands call{.a = a.data(), .b = b.data(), .d = d.data(), .outputs = {q.data()}};
  EXPECT_EQ(said(call), "done");
  call.outputs[0] = nullptr;
  EXPECT_THAT(said(call), HasSubstr("y0 = null"));
  call.outputs[0] = d.data() + 3;
  EXPECT_THAT(said(call), HasSubstr("overlaps"));
  call.outputs[0] = a.data() + 12;
  EXPECT_THAT(said(call), HasSubstr("overlaps y0"));
  const auto refused = [](std::string_view line) {
    const auto parsed = parse_gemm(line);
    if (!parsed) return parsed.error().message;
    const Status valid = validate(*parsed);
    return valid ? std::string("valid") : valid.error().message;
  };
  EXPECT_THAT(refused("fp32 N N 4 4 4 batch=2 epilogue=d=acc;q[m]=sum(acc)"),
              HasSubstr("y0 needs the index batch: batch = 2"));
  EXPECT_THAT(refused("fp32 N N 4 0 4 epilogue=d=acc;q[m]=sum(acc)"),
              HasSubstr("y0 is made of no element"));
  EXPECT_EQ(refused("fp32 N N 4 4 4 batch=2 epilogue=d=acc;q[batch,m]=sum(acc)"), "valid");
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

// A CPU's scalars are the host's in any case; the text says so for all devices.
TEST(ExpressionCalls, ReadScalarsOfTheHost) {
  Opened kiln;
  const Gemm gemm = problem("fp32 N N 2 2 1 epilogue=d=acc*s[]:host+t[]:bf16:host");
  const float a[] = {1, 2}, b[] = {1, 10}, s = 0.5F;
  const std::uint16_t t = float_to_bf16(-1);
  std::array<float, 4> d{};
  Operands call{.a = a, .b = b, .d = d.data(), .extra = {&s, &t}};
  const auto run = [&] {
    d.fill(0);
    const Status ran = kiln->gemm(gemm, call);
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_THAT(d, testing::ElementsAre(-0.5, 4, 0, 9));
  };
  run();
  ASSERT_TRUE(kiln->tune(gemm, test::few(4)));
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact);
  run();
  EXPECT_THAT(kiln->explain(gemm).value(), HasSubstr("d=acc*x0[]:host+x1[]:bf16:host"));
  call.extra[1] = nullptr;
  EXPECT_THAT(kiln->gemm(gemm, call).error().message, HasSubstr("x1 = null: fp32 N N 2 2 1"));
  call.extra[1] = d.data() + 1;
  EXPECT_THAT(kiln->gemm(gemm, call).error().message, HasSubstr("overlaps d"));
}

TEST(ExpressionCalls, CParsesAndCallsThem) {
  int expression = -1;
  EXPECT_EQ(kiln_expression_parse("d=foo(acc)", &expression), KILN_BAD_INPUT);
  EXPECT_THAT(kiln_last_error(), HasSubstr("column 3: no function is called foo"));
  EXPECT_EQ(kiln_expression_parse(nullptr, &expression), KILN_BAD_INPUT);
  EXPECT_EQ(kiln_expression_parse("d=acc", nullptr), KILN_BAD_INPUT);
  ASSERT_EQ(kiln_expression_parse("d=max(acc*scale[],b[n])", &expression), KILN_OK);
  EXPECT_STREQ(kiln_expression_text(expression), "d=max(acc*x0[],x1[n])");
  int of_host = -1;
  EXPECT_EQ(kiln_expression_parse("d=acc*s[n]:host", &of_host), KILN_BAD_INPUT);
  EXPECT_THAT(kiln_last_error(), HasSubstr("column 12: host is of an operand without indices"));
  ASSERT_EQ(kiln_expression_parse("d=acc-s[]:host", &of_host), KILN_OK);
  EXPECT_STREQ(kiln_expression_text(of_host), "d=acc-x0[]:host");
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
  desc.expression = of_host;
  ASSERT_EQ(kiln_gemm(engine, &desc, &operands), KILN_OK) << kiln_last_error();
  EXPECT_THAT(d, testing::ElementsAre(-1, 0, 1, 1, 2, 5));
  desc.expression = 1 << 30;
  EXPECT_EQ(kiln_gemm(engine, &desc, &operands), KILN_BAD_INPUT);
  EXPECT_THAT(kiln_last_error(), HasSubstr("no such expression"));
  kiln_close(engine);
}

}  // namespace kiln::expression_calls_test
