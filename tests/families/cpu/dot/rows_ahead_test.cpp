// host_dot with ahead=1: the rows of A of the next tile are prefetched.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "generator/families/cpu/dot/config.h"
#include "generator/space/space.h"
#include "generator/space/summation.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "tuner/verify/verify.h"

namespace kiln::rows_ahead_test {

bool offered(const char* shape) {
  const auto space =
      space_for(Problem::of(parse_gemm(shape).value()).value(), cpu_caps_named("avx512").value());
  return space && std::ranges::any_of(space->legal, [](const Config& config) {
           const auto dot = config.if_is<HostDot>();
           return dot && dot->ahead;
         });
}

TEST(RowsAhead, AreOfferedWhereAIsReadFromMemory) {
  EXPECT_TRUE(offered("fp32 N T 4000 5 300"));
  EXPECT_TRUE(offered("fp32 N N 4000 5 300"));
  EXPECT_FALSE(offered("fp32 N T 4000 50 300")) << "A's rows are read again and again";
  EXPECT_FALSE(offered("fp32 N T 5 4000 300"));
  EXPECT_FALSE(offered("fp32 T T 4000 5 300")) << "A is copied";
}

TEST(RowsAhead, ChangeNoBits) {
  const auto device = test::runnable("avx2", 1);
  if (!device) GTEST_SKIP() << "no AVX2";
  test::Attempt attempt;
  for (const char* shape : {"fp32 N N 61 5 70", "fp32 N T 9 3 33", "int8 N T 30 4 100"}) {
    const Gemm gemm = parse_gemm(shape).value();
    const Problem problem = Problem::of(gemm).value();
    HostDot config{.isa = Isa::avx2, .mr = 4, .nr = 2, .pack_b = !problem.b_k_major};
    const std::string order = summation(problem, *device, config);
    config.ahead = true;
    ASSERT_EQ(broken_rule(problem, *device, config), "");
    EXPECT_EQ(summation(problem, *device, config), order);
    attempt.at(text(config));
    auto verifier = Verifier::make(gemm, {.seed = 3, .effort = Effort::full});
    ASSERT_TRUE(verifier);
    auto kernel = test::compiled(gemm, *device, config);
    ASSERT_TRUE(kernel) << kernel.error().message;
    const auto verdict =
        verifier->check([&](const Operands& operands) { return kernel->run(operands); });
    EXPECT_TRUE(verdict) << shape << " | " << text(config) << ": " << verdict.error().detail;
  }
}

TEST(RowsAhead, NeedRowsThatStayWhereTheyAre) {
  const Problem problem = Problem::of(parse_gemm("fp32 T T 40 5 300").value()).value();
  HostDot config{.mr = 4, .nr = 5, .pack_a = true};
  const DeviceCaps device = cpu_caps_named("avx512").value();
  EXPECT_EQ(broken_rule(problem, device, config), "");
  config.ahead = true;
  EXPECT_NE(broken_rule(problem, device, config).find("ahead=1"), std::string_view::npos);
}

}  // namespace kiln::rows_ahead_test
