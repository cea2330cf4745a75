// Which other problem the code of a config is also checked on.
#include "tuner/verify/ragged.h"

#include <gtest/gtest.h>

#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/small/config.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/render/render.h"
#include "generator/space/family.h"

namespace kiln::ragged_test {

const DeviceCaps kDevice = cpu_caps_named("avx512").value();

TEST(Ragged, SizesAtRunTimeHaveAnUnevenNeighbourOfLessWork) {
  const Gemm gemm = Gemm::row_major(4096, 4096, 4096);
  int fetching = 0, all = 0;
  const auto space = space_for(Problem::of(gemm).value(), kDevice);
  ASSERT_TRUE(space);
  for (std::size_t i = 0; i < space->legal.size(); i += 97) {
    const auto packed = space->legal[i].if_is<HostPacked>();
    if (!packed) continue;
    const auto neighbour = ragged_problem_for(gemm, kDevice, *packed);
    ASSERT_TRUE(neighbour) << text(*packed);
    EXPECT_EQ(neighbour->m % 2, 1);
    EXPECT_LT(neighbour->flops(), gemm.flops() / 100);
    ++all;
    fetching += packed->fetch_a > 0 || packed->fetch_b > 0;
  }
  EXPECT_GT(fetching, 0);
  EXPECT_GT(all, fetching);
}

TEST(Ragged, SizesInTheCodeHaveNone) {
  const Gemm gemm = Gemm::row_major(24, 32, 16);
  const auto space = space_for(Problem::of(gemm).value(), kDevice);
  ASSERT_TRUE(space);
  for (const Config& config : space->legal)
    if (config.is<HostSmall>()) {
      EXPECT_FALSE(ragged_problem_for(gemm, kDevice, config));
      return;
    }
  FAIL() << "no host_small config";
}

// Whether k is a multiple of the tile's is asked by the template, in no constant.
TEST(Ragged, WhatGpuTemplatesAskAboutBinds) {
  const DeviceCaps gpu = hip_caps_named("mi300x").value();
  const HipMfma config{.rows = 16,
                       .k = 16,
                       .tile_m = 32,
                       .tile_n = 32,
                       .depth = 64,
                       .waves_m = 1,
                       .waves_n = 1,
                       .staging = Staging::single,
                       .chunk = 0};
  const Gemm even = parse_gemm("bf16 N T 128 128 256 align=2").value();
  ASSERT_EQ(broken_rule(Problem::of(even).value(), gpu, config), "");
  EXPECT_FALSE(ragged_problem_for(even, gpu, config)) << "its code is not for ragged k";
  const Gemm odd = parse_gemm("bf16 N T 128 128 251 align=2").value();
  EXPECT_TRUE(ragged_problem_for(odd, gpu, config));
}

TEST(Ragged, SmallProblemsAreTheSameCode) {
  const DeviceCaps gpu = hip_caps_named("mi300x").value();
  const Gemm big = parse_gemm("bf16 N T 8192 8192 8192 align=16").value();
  const HipMfma config{.tile_m = 128, .tile_n = 256, .depth = 64, .splits = 2};
  ASSERT_EQ(broken_rule(Problem::of(big).value(), gpu, config), "");
  const auto small = small_problem_for(big, gpu, config, 0x1p26);
  ASSERT_TRUE(small);
  EXPECT_LE(small->flops(), 0x1p27);
  EXPECT_NE(small->m % 128, 0) << "more than whole tiles";
  EXPECT_EQ(small->k % 32, 0) << "as its code has it";
  const auto text_of = [&](const Gemm& gemm) {
    const std::string all = render(Problem::of(gemm).value(), gpu, config).value().text;
    return all.substr(all.find("\n// ----"));  // behind the lines that name the problem
  };
  EXPECT_EQ(text_of(*small), text_of(big));
  EXPECT_FALSE(small_problem_for(big, gpu, config, 1000)) << "none is so small";
}

}  // namespace kiln::ragged_test
