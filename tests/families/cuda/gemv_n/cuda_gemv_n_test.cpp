// Few rows times lines across k without a device: rules, orders, space, launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "generator/families/cuda/gemv_n/config.h"
#include "generator/space/family.h"
#include "generator/space/space.h"
#include "generator/space/summation.h"

namespace kiln::cuda_gemv_n_test {

using testing::HasSubstr;

DeviceCaps device(const char* name) { return cuda_caps_named(name).value(); }
Problem problem(const char* line) { return Problem::of(parse_gemm(line).value()).value(); }
std::string rule(const char* line, const char* arch, const CudaGemvN& c) {
  return std::string(broken_rule(problem(line), device(arch), c));
}

TEST(CudaGemvNRules, NameWhatIsWrong) {
  const auto broken = [](CudaGemvN c) { return rule("bf16 N N 4 4099 4096", "sm_90a", c); };
  EXPECT_EQ(broken({}), "");
  EXPECT_EQ(broken({.ahead = 2, .words = 2, .matrix = true}), "");
  EXPECT_THAT(broken({.thin = 5}), HasSubstr("thin is 1, 2, 4, 8 or 16"));
  EXPECT_THAT(broken({.thin = 2}), HasSubstr("is 1 to thin"));
  EXPECT_THAT(broken({.warps = 40}), HasSubstr("warps 1 to 32"));
  EXPECT_THAT(broken({.warps = 4}), HasSubstr("multiple of the elements of 16 bytes"));
  EXPECT_THAT(broken({.words = 2}), HasSubstr("words 1, 2 or 4 with matrix=1 and 1 without"));
  EXPECT_THAT(broken({.ahead = 8, .words = 4, .matrix = true}), HasSubstr("fit the registers"));
  EXPECT_THAT(broken({.splits = 65}), HasSubstr("splits 1 to 64"));
}

TEST(CudaGemvNRules, NameWhatIsNotComputed) {
  EXPECT_THAT(rule("bf16 N T 4 4099 4096", "sm_90a", {}), HasSubstr("is not k-major"));
  EXPECT_THAT(rule("bf16 N N 17 4099 4096", "sm_90a", {.thin = 16}), HasSubstr("is 1 to thin"));
  EXPECT_THAT(rule("fp32 N N 4 4099 4096", "sm_90a", {.words = 1, .matrix = true}),
              HasSubstr("matrix=1 needs 16-bit operands"));
  EXPECT_THAT(rule("fp8 N N 4 4099 4096", "sm_80", {.warps = 16}), HasSubstr("sm_89"));
  EXPECT_THAT(rule("bf16 N N 4 4099 7", "sm_90a", {.splits = 8}), HasSubstr("as many lines"));
  // Aligned lines begin with words, whichever warp has them.
  EXPECT_EQ(rule("bf16 N N 4 4096 4096 align=16", "sm_90a", {.warps = 4}), "");
}

/// One order for every number of rows and columns and at any address; warps and parts divide k.
TEST(CudaGemvN, RowsAndColumnsHaveOneOrder) {
  const auto order = [](const char* line, CudaGemvN c) {
    return summation(problem(line), device("sm_90a"), c);
  };
  const std::string few = order("bf16 N N 1 4099 4096", {.thin = 1, .splits = 4});
  EXPECT_NE(few, "");
  EXPECT_EQ(few, order("bf16 N N 7 512 4096 align=16", {.ahead = 2, .splits = 4}));
  EXPECT_NE(few, order("bf16 N N 1 4099 4096", {.thin = 1, .warps = 16, .splits = 4}));
  EXPECT_NE(few, order("bf16 N N 1 4099 4096", {.thin = 1, .splits = 2}));
  EXPECT_NE(few, order("bf16 N N 1 4099 4096", {.thin = 1, .splits = 4, .matrix = true}));
}

TEST(CudaGemvN, TheSpaceCoversEveryTypeThatItComputes) {
  for (const char* line : {"bf16 N N 1 4099 4096", "fp16 N N 16 4099 4096", "fp32 N N 8 4099 4096",
                           "tf32 N N 3 4099 4096", "fp64 N N 2 999 512", "int8 N N 4 4099 4096",
                           "fp8 N N 4 4099 4096", "bf16 T N 4099 3 4096"}) {
    const auto space = space_for(Problem::of(parse_gemm(line).value()).value(), device("sm_90a"));
    ASSERT_TRUE(space) << line << ": " << space.error().message;
    EXPECT_GT(
        std::ranges::count_if(space->legal, [](const Config& c) { return c.is<CudaGemvN>(); }), 10)
        << line;
  }
}

TEST(CudaGemvN, PartsNeedRoomForTheirSums) {
  const auto launch = [](const CudaGemvN& c) {
    const Family& family = family_of(Config(c), Vendor::nvidia);
    return family.launch(problem("bf16 N N 4 4099 4096"), device("sm_90a"), c);
  };
  const GpuLaunch whole = launch({.thin = 4});
  ASSERT_EQ(whole.steps.size(), 1u);
  EXPECT_EQ(whole.steps[0].grid.x, 17u);  // 248 columns each
  EXPECT_EQ(whole.workspace_bytes, 0);
  const GpuLaunch parts = launch({.thin = 4, .splits = 3});
  EXPECT_EQ(parts.steps[0].grid.x, 51u);
  EXPECT_EQ(parts.workspace_bytes - parts.zeroed_bytes, 51 * 4 * 248 * 4);
}

}  // namespace kiln::cuda_gemv_n_test
