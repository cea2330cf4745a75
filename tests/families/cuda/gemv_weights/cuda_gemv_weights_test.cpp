// Few rows times weights without a device: rules, orders, space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "generator/families/cuda/gemv_weights/config.h"
#include "generator/space/family.h"
#include "generator/space/space.h"
#include "generator/space/summation.h"

namespace kiln::cuda_gemv_weights_test {

using testing::HasSubstr;

DeviceCaps device(const char* name) { return cuda_caps_named(name).value(); }
Problem problem(const char* line) { return Problem::of(parse_gemm(line).value()).value(); }
std::string rule(const char* line, const char* arch, const CudaGemvWeights& c) {
  return std::string(broken_rule(problem(line), device(arch), c));
}

TEST(CudaGemvWeightsRules, NameWhatIsWrong) {
  const auto broken = [](CudaGemvWeights c) {
    return rule("bf16_int4 N T 16 4096 4096 group=128 align=16", "sm_80", c);
  };
  EXPECT_EQ(broken({}), "");
  EXPECT_THAT(broken({.tile_n = 24}), HasSubstr("tile_n is 16, 32 or 64"));
  EXPECT_THAT(broken({.tile_m = 4}), HasSubstr("tile_m 8, 16 or 32"));
  EXPECT_THAT(broken({.warps = 17}), HasSubstr("warps 1 to 16"));
  EXPECT_THAT(broken({.ahead = 9}), HasSubstr("ahead 1 to 8"));
  EXPECT_THAT(broken({.tile_n = 64, .ahead = 8}), HasSubstr("fit the registers"));
}

TEST(CudaGemvWeightsRules, NameWhatIsNotComputed) {
  constexpr const char* kReads = "the alignment is that of a lane's reads, and k is whole reads";
  EXPECT_THAT(rule("fp16_int4 N T 16 64 128 group=128 align=16", "sm_75", {}), HasSubstr("sm_80"));
  EXPECT_EQ(rule("bf16_int4 T T 16 64 128 group=128 align=16", "sm_80", {}),
            "A and B are k-major, B is not packed");
  EXPECT_EQ(rule("bf16_int4 N T 16 64 128 group=128 align=8", "sm_80", {}), kReads);
  EXPECT_EQ(rule("bf16_int4 N T 16 64 144 group=k align=8 lda=160 ldb=160", "sm_80", {}), kReads);
  // Groups of 32 of eight bits are read by 8 bytes.
  EXPECT_EQ(rule("bf16_int8 N T 16 64 96 group=32 align=8", "sm_80", {}), "");
}

/// One order for every tile, whatever m is; warps divide k.
TEST(CudaGemvWeights, TilesHaveOneOrder) {
  const auto order = [](const char* line, CudaGemvWeights c) {
    return summation(problem(line), device("sm_90a"), c);
  };
  const std::string few = order("bf16_int4 N T 1 4096 4096 group=64 align=16", {});
  EXPECT_NE(few, "");
  EXPECT_EQ(few, order("bf16_int4 N T 30 4096 4096 group=64 align=16",
                       {.tile_n = 32, .tile_m = 16, .ahead = 2}));
  EXPECT_NE(few, order("bf16_int4 N T 1 4096 4096 group=64 align=16", {.warps = 4}));
}

TEST(CudaGemvWeights, TheSpaceCoversEveryTypeAndGroup) {
  for (const std::string type : {"bf16_int4", "bf16_uint4", "bf16_int8", "fp16_int4", "fp16_int8",
                                 "bf16_fp8", "fp16_fp8", "bf16_fp4", "fp16_fp4"})
    for (const std::string group : {"32", "64", "128", "k", "128x128", "mx32"})
      for (const char* m : {"1", "16", "32"}) {
        const bool floats = type.find("_fp") != type.npos;
        if (group == "mx32" && !floats) continue;
        const std::string zeros = floats ? "" : " zero=float";
        const std::string line = type + " N T " + m + " 4096 4096 align=16 group=" + group + zeros;
        const auto space =
            space_for(Problem::of(parse_gemm(line).value()).value(), device("sm_90a"));
        ASSERT_TRUE(space) << line << ": " << space.error().message;
        EXPECT_GT(std::ranges::count_if(space->legal,
                                        [](const Config& c) { return c.is<CudaGemvWeights>(); }),
                  3)
            << line;
      }
}

}  // namespace kiln::cuda_gemv_weights_test
