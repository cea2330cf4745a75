// The family of weights on NVIDIA's GPUs without a device: banks of shared memory, rules, space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "generator/families/cuda/common/banks.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/weights/sizes.h"
#include "generator/space/family.h"
#include "generator/space/summation.h"

#define KILN_DEVICE inline
#include "templates/cuda/common/banks.h"
#undef KILN_DEVICE

namespace kiln::cuda_weights_test {

using testing::HasSubstr;

DeviceCaps device(const char* name) { return cuda_caps_named(name).value(); }
Problem problem(const char* line) { return Problem::of(parse_gemm(line).value()).value(); }
std::string rule(const char* line, const char* arch, const CudaWeights& c) {
  return std::string(broken_rule(problem(line), device(arch), c));
}

/// Eight lines of codes at a time, 16 bytes of each: what a quarter of ldmatrix reads.
TEST(CudaWeightsBanks, CodesAreReadWithoutConflicts) {
  for (const int pitch : {32, 64, 128, 256}) {
    const Exchange e = cuda::exchange_of_codes(pitch);
    for (int unit = 0; unit < pitch; unit += 16) {
      std::array<int, 32> at{};
      for (int lane = 0; lane < 32; ++lane)
        at[std::size_t(lane)] = lane * pitch + exchanged_byte(lane, unit, e.bits, e.base, e.shift);
      EXPECT_EQ(cuda::turns_lost(at, 16), 0) << pitch << ' ' << unit;
    }
    // Lines further down exchange the same, so that a lane works its place out once.
    for (int line = 0; line < 8; ++line)
      EXPECT_EQ(exchanged_byte(line, 0, e.bits, e.base, e.shift),
                exchanged_byte(line + 8, 0, e.bits, e.base, e.shift));
  }
}

TEST(CudaWeightsBanks, ElementsOfAAreReadWithoutConflicts) {
  for (const int code_bits : {4, 8}) {
    const Exchange e = cuda::exchange_of_left(code_bits);
    const int bytes = 64 / code_bits;  // of a lane
    for (const int pitch : {128, 256, 512})
      for (int first = 0; first < pitch; first += bytes * 4) {
        std::array<int, 32> at{};
        for (int lane = 0; lane < 32; ++lane)
          at[std::size_t(lane)] =
              lane / 4 * pitch +
              exchanged_byte(lane / 4, first + lane % 4 * bytes, e.bits, e.base, e.shift);
        EXPECT_EQ(cuda::turns_lost(at, bytes), 0) << code_bits << ' ' << pitch << ' ' << first;
      }
  }
}

TEST(CudaWeightsRules, NameWhatIsWrong) {
  const auto broken = [](CudaWeights c) {
    return rule("bf16_int4 N T 16 4096 4096 group=128 align=16", "sm_80", c);
  };
  EXPECT_EQ(broken({}), "");
  EXPECT_THAT(broken({.tile_n = 96}), HasSubstr("tile_n is 16 to 256"));
  EXPECT_THAT(broken({.tile_m = 4}), HasSubstr("tile_m 8 to 128"));
  EXPECT_THAT(broken({.warps = 3}), HasSubstr("warps 1 to 8"));
  EXPECT_THAT(broken({.stages = 1}), HasSubstr("stages 2 to 16"));
  EXPECT_EQ(broken({.tile_n = 64, .warps = 8}), "every warp has at least 16 columns");
  EXPECT_EQ(broken({.block_k = 64}), "a stage holds whole groups, and what is decoded together");
  EXPECT_EQ(broken({.tile_n = 256, .tile_m = 128}), "accumulators and numbers fit the registers");
  EXPECT_EQ(broken({.block_k = 256, .stages = 8}), "stages fit shared memory");
  EXPECT_EQ(broken({.splits = 33}), "splits is 1 to 64, at most the stages of k");
  EXPECT_EQ(rule("bf16_int4 N T 64 512 512 groups=4 grouped=rows group=128 align=16", "sm_80",
                 {.splits = 2}),
            "groups: no splits, and at most 4096 of them");
  EXPECT_THAT(rule("bf16_int4 N T 64 2097152 512 group=128", "sm_80",
                   {.tile_n = 64, .stages = 3, .splits = 2}),
              HasSubstr("64 KiB"));
}

TEST(CudaWeightsRules, NameWhatIsNotComputed) {
  EXPECT_THAT(rule("fp16_int4 N T 16 64 128 group=128", "sm_75", {}), HasSubstr("(sm_80)"));
  EXPECT_EQ(rule("bf16 N T 16 64 128", "sm_80", {}),
            "B holds weights, and the device has the matrix instruction and cp.async (sm_80); m, "
            "n, k are at least 1");
  for (const char* line :
       {"bf16_int4 T T 16 64 128 group=128", "bf16_int4 N N 16 64 128 group=128"})
    EXPECT_EQ(rule(line, "sm_80", {}), "A and B are k-major, B is not packed") << line;
  EXPECT_EQ(rule("bf16_int8 N T 16 64 128 group=128", "sm_80",
                 {.tile_n = 64, .block_k = 256, .warps = 2}),
            "threads divide the copies of a line evenly")
      << "without an alignment words of 4 bytes are copied";
}

/// One order for every tile, whatever m is.
TEST(CudaWeights, TilesHaveOneOrder) {
  const auto order = [](const char* line, CudaWeights c) {
    return summation(problem(line), device("sm_90a"), c);
  };
  const std::string few = order("bf16_int4 N T 1 4096 4096 group=64", {});
  EXPECT_NE(few, "");
  EXPECT_EQ(few, order("bf16_int4 N T 300 4096 4096 group=64",
                       {.tile_n = 64, .tile_m = 64, .block_k = 64, .stages = 3}));
  EXPECT_NE(few, order("bf16_int4 N T 1 4096 4096 group=64", {.splits = 2}));
  EXPECT_NE(few, order("bf16_int4 N T 1 4096 4096 group=k", {}));
}

TEST(CudaWeights, TheSpaceCoversEveryTypeAndGroup) {
  for (const std::string type : {"bf16_int4", "bf16_uint4", "bf16_int8", "fp16_int4", "fp16_int8",
                                 "bf16_fp8", "fp16_fp8", "bf16_fp4", "fp16_fp4"})
    for (const std::string group : {"32", "64", "128", "k", "128x128", "mx32"})
      for (const char* m : {"1", "17", "512"}) {
        const bool floats = type.find("_fp") != type.npos;
        if (group == "mx32" && !floats) continue;
        const std::string zeros = floats ? "" : " zero=float";
        const std::string line = type + " N T " + m + " 4096 4096 group=" + group + zeros;
        const auto space =
            space_for(Problem::of(parse_gemm(line).value()).value(), device("sm_90a"));
        ASSERT_TRUE(space) << line << ": " << space.error().message;
        EXPECT_GT(space->legal.size(), 20u) << line;
      }
}

}  // namespace kiln::cuda_weights_test
