// The family of weights for Hopper's warpgroup instruction without a device: banks of shared
// memory, rules, space, launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "generator/families/cuda/common/banks.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/families/cuda/wgmma_weights/sizes.h"
#include "generator/space/family.h"
#include "generator/space/summation.h"

#define KILN_DEVICE inline
#include "templates/cuda/common/swizzle.h"
#undef KILN_DEVICE

namespace kiln::cuda_wgmma_weights_test {

using testing::HasSubstr;

DeviceCaps device(const char* name) { return cuda_caps_named(name).value(); }
Problem problem(const char* line) { return Problem::of(parse_gemm(line).value()).value(); }
std::string rule(const char* line, const char* arch, const CudaWgmmaWeights& c) {
  return std::string(broken_rule(problem(line), device(arch), c));
}

/// A quad reads the same 16 bytes, so that eight rows are read at a time.
TEST(CudaWgmmaWeightsBanks, CodesAreReadWithoutConflicts) {
  for (const int pitch : {32, 64, 128})
    for (int unit = 0; unit < pitch / 16; ++unit) {
      std::array<int, 32> at{};
      for (int row = 0; row < 32; ++row)
        at[std::size_t(row)] = int(swizzled_byte(row, unit, pitch));
      EXPECT_EQ(cuda::turns_lost(at, 16), 0) << pitch << ' ' << unit;
      // Rows eight further down are exchanged alike, and units by what exchanges the first.
      for (int row = 0; row < 32; ++row) {
        EXPECT_EQ(swizzled_byte(row + 8, unit, pitch),
                  swizzled_byte(row, unit, pitch) + unsigned(8 * pitch));
        const unsigned turn = swizzled_byte(row, 0, pitch) - unsigned(row * pitch);
        EXPECT_EQ(swizzled_byte(row, unit, pitch),
                  unsigned(row * pitch) + (turn ^ unsigned(unit * 16)));
      }
    }
}

TEST(CudaWgmmaWeightsRules, NameWhatIsWrong) {
  const auto broken = [](CudaWgmmaWeights c) {
    return rule("bf16_int4 N T 512 4096 4096 group=128 align=16", "sm_90a", c);
  };
  EXPECT_EQ(broken({}), "");
  EXPECT_THAT(broken({.tile_m = 12}), HasSubstr("tile_m is a multiple of 8 up to 256"));
  EXPECT_THAT(broken({.warpgroups = 4}), HasSubstr("warpgroups 1 to 3"));
  EXPECT_THAT(broken({.block_k = 96}), HasSubstr("block_k 64, 128 or 256"));
  EXPECT_THAT(broken({.stages = 1}), HasSubstr("stages 2 to 64"));
  EXPECT_THAT(broken({.group = 65}), HasSubstr("group 1 to 64"));
  EXPECT_THAT(broken({.block_k = 64}), HasSubstr("a turn holds whole groups"));
  EXPECT_EQ(broken({.tile_m = 256, .stages = 2}), "accumulators and numbers fit the registers");
  EXPECT_EQ(broken({.stages = 9}), "stages fit shared memory");
  EXPECT_THAT(broken({.splits = 2}), HasSubstr("splits is 2 to 128"));
  EXPECT_THAT(broken({.sharing = Sharing::split, .splits = 33}), HasSubstr("splits is 2 to 128"));
  EXPECT_THAT(rule("bf16_int4 N T 2048 2097152 512 group=128 align=16", "sm_90a",
                   {.sharing = Sharing::split, .splits = 2}),
              HasSubstr("64 KiB"));
}

TEST(CudaWgmmaWeightsRules, NameWhatIsNotComputed) {
  for (const char* arch : {"sm_80", "sm_100a"})
    EXPECT_EQ(rule("fp16_int4 N T 512 64 128 group=128 align=16", arch, {}),
              "B holds weights, the device is sm_90a, m, n and k are at least 1");
  EXPECT_THAT(rule("bf16 N T 512 64 128 align=16", "sm_90a", {}), HasSubstr("B holds weights"));
  EXPECT_EQ(rule("bf16_int4 N N 512 64 128 group=128 align=16", "sm_90a", {}),
            "A and B are k-major, B is not packed");
  for (const char* line :
       {"bf16_int4 N T 512 64 128 group=128", "bf16_int4 N T 512 64 128 group=128 lda=132 align=8",
        "bf16_int4 N T 512 64 160 group=32 ldb=176 align=8"})
    EXPECT_THAT(rule(line, "sm_90a", {}), HasSubstr("TMA can address A and B")) << line;
  EXPECT_EQ(rule("bf16_int4 N T 512 64 128 group=128 zero=float align=16", "sm_90a", {}),
            "zero points are integers, or there are none, or round_weights=1");
  EXPECT_THAT(rule("bf16_int8 N T 512 64 256 group=128 align=16", "sm_90a",
                   {.tile_m = 64, .block_k = 256, .stages = 2}),
              HasSubstr("at most 128 bytes of a column's codes"));
}

TEST(CudaWgmmaWeightsRules, GroupsHaveWholeTiles) {
  const char* rows = "bf16_int4 N T 4096 7168 2048 groups=32 grouped=rows group=128 align=16";
  EXPECT_EQ(rule(rows, "sm_90a", {}), "");
  EXPECT_EQ(rule("bf16_int4 N T 512 7168 2048 groups=8 grouped=masked group=128 gate=silu align=16",
                 "sm_90a", {.tile_m = 64}),
            "");
  EXPECT_EQ(rule(rows, "sm_90a", {.sharing = Sharing::split, .splits = 2}),
            "groups: sharing=tiles, and at most 4096 of them");
  EXPECT_EQ(
      rule("bf16_int4 N T 4096 128 128 groups=4097 grouped=rows group=128 align=16", "sm_90a", {}),
      "groups: sharing=tiles, and at most 4096 of them");
  const auto space = space_for(Problem::of(parse_gemm(rows).value()).value(), device("sm_90a"));
  ASSERT_TRUE(space) << space.error().message;
  int mine = 0;
  for (const Config& c : space->legal) mine += family_name(c) == CudaWgmmaWeights::kFamily;
  EXPECT_GT(mine, 10);
}

TEST(CudaWgmmaWeightsRules, WeightsAreRoundedWhereTheProblemAllowsIt) {
  const std::string fast = "bf16_int4 N T 512 4096 4096 group=128 align=16 numerics=fast";
  const CudaWgmmaWeights rounded{.tile_m = 256, .stages = 2, .round_weights = true};
  EXPECT_EQ(rule(fast.c_str(), "sm_90a", rounded), "");
  EXPECT_EQ(rule((fast + " zero=float").c_str(), "sm_90a", rounded), "");
  EXPECT_EQ(rule((fast + " gate=silu").c_str(), "sm_90a",
                 {.tile_m = 128, .stages = 3, .round_weights = true}),
            "");
  EXPECT_EQ(rule(fast.c_str(), "sm_90a", {}), "");
  const char* refused =
      "round_weights=1 needs numerics=fast, groups along k and, beside an A of fp16, scales of "
      "fp16";
  for (const char* line :
       {"bf16_int4 N T 512 4096 4096 group=128 align=16",
        "bf16_int4 N T 512 4096 4096 group=k align=16 numerics=fast",
        "fp16_int4 N T 512 4096 4096 group=128 align=16 numerics=fast",
        "fp16_int4 N T 512 4096 4096 group=128 scale_type=bf16 align=16 numerics=fast",
        "fp16_fp4 N T 512 4096 4096 group=mx32 align=16 numerics=fast"})
    EXPECT_EQ(rule(line, "sm_90a", rounded), refused) << line;
  EXPECT_EQ(rule("fp16_int4 N T 512 4096 4096 group=128 scale_type=fp16 align=16 numerics=fast",
                 "sm_90a", rounded),
            "");
  EXPECT_EQ(rule((fast + " zero=float").c_str(), "sm_90a", {}),
            "zero points are integers, or there are none, or round_weights=1");
}

/// Groups end with turns, whose stages need not hold them; the ring holds more than a turn.
TEST(CudaWgmmaWeightsRules, TurnsHoldWholeGroups) {
  const std::string fast = "bf16_int4 N T 512 4096 4096 group=128 align=16 numerics=fast";
  const auto with = [&](int stages, int turn, bool rounded) {
    return rule(
        fast.c_str(), "sm_90a",
        {.tile_m = 128, .block_k = 64, .stages = stages, .round_weights = rounded, .turn = turn});
  };
  EXPECT_EQ(with(5, 2, true), "");
  EXPECT_EQ(with(5, 4, true), "");
  EXPECT_EQ(with(5, 0, true),
            "a turn holds whole groups, a stage at most 128 bytes of a column's codes");
  for (const std::string& refused : {with(2, 2, true), with(5, 2, false)})
    EXPECT_EQ(refused, "a turn is of one stage, or round_weights=1 and there are more stages");
  EXPECT_NE(with(5, 1, true), "");
  EXPECT_NE(with(5, 3, true), "");
}

/// A key of texts from then on: older ones say nothing of it.
TEST(CudaWgmmaWeights, TextsNameRoundingWhereThereIsSome) {
  EXPECT_THAT(text(CudaWgmmaWeights{}), testing::EndsWith(" group=8"));
  const Config rounded = CudaWgmmaWeights{.round_weights = true};
  EXPECT_THAT(text(rounded), testing::EndsWith(" group=8 round_weights=1"));
  EXPECT_EQ(parse_config(text(rounded)).value(), rounded);
}

/// Many rows are computed by tiles that both kinds of sums leave no registers for, a factor at a
/// time too.
TEST(CudaWgmmaWeightsModel, PrefersRoundedWeightsForManyRows) {
  const auto first = [](const char* line) {
    const auto space = space_for(Problem::of(parse_gemm(line).value()).value(), device("sm_90a"));
    double least = 1e30;
    CudaWgmmaWeights best;
    for (const Config& c : space->legal)
      if (const auto mine = c.if_is<CudaWgmmaWeights>())
        if (const double ns = predict_ns(space->problem, device("sm_90a"), c); ns < least)
          least = ns, best = *mine;
    return best;
  };
  const auto rounded = first(
      "bf16_int4 N T 4096 4096 4096 group=128 scale_type=bf16 align=16 "
      "numerics=fast");
  EXPECT_TRUE(rounded.round_weights);
  EXPECT_GT(rounded.tile_m, 168);
  const auto gate = first(
      "bf16_int4 N T 256 14336 4096 group=128 scale_type=bf16 gate=silu "
      "align=16 numerics=fast");
  EXPECT_TRUE(gate.round_weights);
  EXPECT_GT(gate.tile_m, 96);
}

/// One order for every tile, whatever m is.
TEST(CudaWgmmaWeights, TilesHaveOneOrder) {
  const auto order = [](const char* line, CudaWgmmaWeights c) {
    return summation(problem(line), device("sm_90a"), c);
  };
  const std::string few = order("bf16_int4 N T 128 4096 4096 group=64 align=16", {});
  EXPECT_NE(few, "");
  EXPECT_EQ(few, order("bf16_int8 N T 300 4096 4096 group=64 align=16",
                       {.tile_m = 64, .warpgroups = 1, .block_k = 64}));
  EXPECT_NE(few, order("bf16_int4 N T 128 4096 4096 group=128 align=16", {}));
  EXPECT_NE(few, order("bf16_int4 N T 128 4096 4096 group=k align=16", {}));
  const std::string rounded =
      order("bf16_int4 N T 128 4096 4096 group=64 align=16 numerics=fast", {.round_weights = true});
  EXPECT_EQ(rounded, "wgmma k16 chain of weights as bf16");
  EXPECT_EQ(rounded, order("bf16_int4 N T 900 4096 4096 group=64 align=16 numerics=fast",
                           {.tile_m = 256, .block_k = 64, .round_weights = true}));
  EXPECT_NE(few, order("bf16_int4 N T 128 4096 4096 group=64 align=16",
                       {.sharing = Sharing::split, .splits = 2}));
  EXPECT_EQ(order("bf16_int4 N T 128 4096 4096 group=64 align=16", {.sharing = Sharing::stream}),
            "");
}

/// Codes are bytes to the copy engine, A comes in lines of 128 bytes.
TEST(CudaWgmmaWeights, MapsHoldAStage) {
  const Problem p = problem("bf16_int4 N T 512 4096 4096 group=128 align=16");
  const Config config = CudaWgmmaWeights{.tile_m = 96};
  const GpuLaunch l = family_of(config, Vendor::nvidia).launch(p, device("sm_90a"), config);
  ASSERT_EQ(l.maps.size(), 3u);
  EXPECT_EQ(l.maps[0].operand, MapOperand::b);
  EXPECT_EQ(l.maps[0].dims[0], 2048u);
  EXPECT_EQ(l.maps[0].box[0], 64u);
  EXPECT_EQ(l.maps[0].box[1], 128u);
  EXPECT_EQ(l.maps[1].operand, MapOperand::a);
  EXPECT_EQ(l.maps[1].box[0], 64u);
  EXPECT_EQ(l.maps[1].box[1], 96u);
}

TEST(CudaWgmmaWeights, TheSpaceCoversEveryTypeAndGroup) {
  for (const std::string type : {"bf16_int4", "bf16_uint4", "bf16_int8", "fp16_int4", "fp16_int8",
                                 "bf16_fp8", "fp16_fp8", "bf16_fp4", "fp16_fp4"})
    for (const std::string group : {"32", "64", "128", "k", "128x128", "mx32"})
      for (const char* m : {"1", "128", "4096"}) {
        const bool floats = type.find("_fp") != type.npos;
        if (group == "mx32" && !floats) continue;
        const std::string zeros = floats ? "" : " zero=int";
        const std::string line = type + " N T " + m + " 4096 4096 align=16 group=" + group + zeros;
        const auto space =
            space_for(Problem::of(parse_gemm(line).value()).value(), device("sm_90a"));
        ASSERT_TRUE(space) << line << ": " << space.error().message;
        int mine = 0;
        for (const Config& c : space->legal) mine += family_name(c) == CudaWgmmaWeights::kFamily;
        EXPECT_GT(mine, 10) << line;
      }
}

}  // namespace kiln::cuda_wgmma_weights_test
