// Batches of small products without a device: rules, layouts of shared memory, orders, space,
// launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "generator/families/cuda/small/config.h"
#include "generator/families/cuda/small/sizes.h"
#include "generator/space/family.h"
#include "generator/space/space.h"
#include "generator/space/summation.h"

namespace kiln::cuda_small_test {

using testing::HasSubstr;

constexpr auto kAsync = SmallCopy::async;
constexpr auto kShared = SmallStore::shared;

DeviceCaps device(const char* name = "sm_90a") { return cuda_caps_named(name).value(); }
Problem problem(const char* line) { return Problem::of(parse_gemm(line).value()).value(); }
std::string rule(const char* line, const CudaSmall& c, const char* arch = "sm_90a") {
  return std::string(broken_rule(problem(line), device(arch), c));
}

constexpr const char* kCubes = "fp32 N N 16 16 16 batch=1000 align=16";

TEST(CudaSmallRules, NameWhatIsWrong) {
  const auto broken = [](CudaSmall c) { return rule(kCubes, c); };
  EXPECT_EQ(broken({}), "");
  EXPECT_EQ(broken({.copy = kAsync, .width = 16, .stages = 3, .store = kShared, .turns = 0}), "");
  EXPECT_THAT(broken({.products = 100}), HasSubstr("all their lanes fit a block"));
  EXPECT_THAT(broken({.width = 2}), HasSubstr("whole elements"));
  EXPECT_THAT(broken({.width = 32}), HasSubstr("width is 2, 4, 8 or 16"));
  EXPECT_THAT(broken({.depth = 17}), HasSubstr("depth is 1 to 16 and at most k"));
  EXPECT_THAT(broken({.turns = -1}), HasSubstr("turns 0 or more"));
  EXPECT_THAT(broken({.stages = 2}), HasSubstr("copy=registers needs stages=1"));
  EXPECT_THAT(broken({.lanes_m = 17}), HasSubstr("lanes_m is at most m"));
  EXPECT_THAT(broken({.lanes_m = 1, .lanes_n = 1}), HasSubstr("fit the registers"));
  EXPECT_THAT(broken({.products = 32, .copy = kAsync, .width = 16, .stages = 8}),
              HasSubstr("fit shared memory"));
  EXPECT_THAT(broken({.resident = 33}), HasSubstr("resident 1 to 32"));
  EXPECT_THAT(rule("fp32 N N 5 5 5 batch=1000", {.width = 16}), HasSubstr("width divides"));
  EXPECT_THAT(rule("fp16 N T 8 8 8 batch=1000", {.copy = kAsync, .width = 2}),
              HasSubstr("width >= 4"));
  EXPECT_THAT(rule("fp32 N N 16 16 16 batch=1000", {.copy = kAsync, .width = 4}, "sm_75"),
              HasSubstr("copy=async needs sm_80"));
}

TEST(CudaSmallRules, NameWhatIsNotComputed) {
  EXPECT_THAT(rule("fp32 N N 65 16 16 batch=1000", {}), HasSubstr("m, n and k are 1 to 64"));
  EXPECT_THAT(rule("int8 N N 16 16 16 batch=1000", {}), HasSubstr("A and B are fp32"));
  EXPECT_THAT(rule("fp32 N N 16 16 16 groups=100 grouped=list", {}), HasSubstr("lists"));
  EXPECT_THAT(rule("bf16 N T 16 16 16 batch=1000 gate=silu", {}), HasSubstr("gate"));
}

TEST(CudaSmallRules, MatrixInstructionsNeedWholeSteps) {
  const CudaSmall c{
      .products = 2, .lanes_m = 8, .depth = 16, .matrix = true, .copy = kAsync, .width = 16};
  EXPECT_EQ(rule("bf16 N T 40 24 48 batch=1000 align=16", c), "");
  EXPECT_THAT(rule("bf16 N T 40 24 40 batch=1000 align=16", c), HasSubstr("divides k"));
  EXPECT_THAT(
      rule("bf16 N N 40 20 48 batch=1000 align=16",
           {.products = 2, .lanes_m = 8, .depth = 16, .matrix = true, .copy = kAsync, .width = 8}),
      HasSubstr("lines of whole 16 bytes"));
  EXPECT_THAT(rule("fp32 N N 16 16 16 batch=1000 align=16", c), HasSubstr("fp16, bf16 or fp64"));
  EXPECT_THAT(rule("fp64 N N 16 16 16 batch=1000 align=16", c), HasSubstr("depth=16 (fp64: 8)"));
}

/// Lines are padded where lanes would meet in a bank, and a run of products is not.
TEST(CudaSmall, ReadsHaveNoBankConflicts) {
  const auto sizes = [](const char* line, CudaSmall c) {
    return cuda::small::small_sizes(problem(line), device(), c);
  };
  const CudaSmall c{.products = 2, .lanes_m = 8, .lanes_n = 4, .copy = kAsync, .width = 16};
  const auto padded = sizes("fp32 N N 32 32 32 batch=1000 align=16", c);
  EXPECT_EQ(padded.a.run, 32);
  EXPECT_EQ(padded.a.pitch % 8, 4);  // an odd number of 16 bytes
  EXPECT_EQ(padded.a.turns, 4);
  EXPECT_EQ(padded.b.pitch, 32);
  const auto odd = sizes("fp32 N N 5 5 5 batch=1000 align=16",
                         {.products = 16, .lanes_m = 5, .lanes_n = 1, .copy = kAsync, .width = 16});
  EXPECT_TRUE(odd.a.flat && odd.b.flat);
  EXPECT_EQ(odd.a.apart, 25);
}

TEST(CudaSmall, OneOrderForEveryShape) {
  const auto order = [](const char* line, const CudaSmall& c) {
    return summation(problem(line), device(), c);
  };
  EXPECT_EQ(order(kCubes, {}), "fma chain");
  EXPECT_EQ(
      order(
          "bf16 N T 64 64 64 batch=1000 align=16",
          {.products = 1, .lanes_m = 8, .depth = 16, .matrix = true, .copy = kAsync, .width = 16}),
      "mma k16 chain");
}

TEST(CudaSmall, TheSpaceCoversTypesAndSizes) {
  for (const char* line :
       {"fp32 N N 4 4 4 batch=1000 align=16", "fp32 N T 64 64 64 batch=1000 align=16",
        "fp64 T N 31 17 48 batch=1000", "fp16 T T 5 7 17 batch=1000 align=16",
        "bf16 N N 48 48 48 batch=1000 align=16", "bf16 N N 1 1 1 batch=1000"})
    for (const char* arch : {"sm_75", "sm_80", "sm_90a", "sm_120a"}) {
      if (std::string(arch) == "sm_75" && std::string(line).starts_with("bf16")) continue;
      const auto space = space_for(problem(line), device(arch));
      ASSERT_TRUE(space) << line << ": " << space.error().message;
      const auto mine =
          std::ranges::count_if(space->legal, [](const Config& c) { return c.is<CudaSmall>(); });
      EXPECT_GT(mine, 4) << line << " " << arch;
      EXPECT_LE(mine, 700) << line << " " << arch;
    }
}

TEST(CudaSmall, BlocksTakeGroupsInTurn) {
  const auto launch = [](const CudaSmall& c) {
    const Family& family = family_of(Config(c), Vendor::nvidia);
    return family.launch(problem(kCubes), device(), c);
  };
  const GpuLaunch each = launch({.products = 8});
  ASSERT_EQ(each.steps.size(), 1u);
  EXPECT_EQ(each.steps[0].grid.x, 125u);
  EXPECT_EQ(each.steps[0].block.x, 128u);
  EXPECT_EQ(launch({.products = 8, .turns = 4}).steps[0].grid.x, 32u);
  EXPECT_EQ(launch({.products = 2, .turns = 0, .resident = 2}).steps[0].grid.x,
            2u * static_cast<unsigned>(device().compute_units));
}

}  // namespace kiln::cuda_small_test
