// The CUDA families without a device: legality, launches, tensor maps, what a search tries first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/simt/sizes.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma/sizes.h"
#include "generator/render/render.h"
#include "generator/space/family.h"
#include "tuner/search/proposer.h"

namespace kiln::cuda_generator_test {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kShapes[] = {
    "bf16 N T 4096 4096 4096 align=16",
    "bf16 T N 1000 1000 1000 align=16",
    "fp16 N N 520 648 264 batch=3 align=16 epilogue=bias_col+gelu+residual",
    "bf16 T T 1023 1023 1023",
    "int8 N N 300 500 700",
    "fp8 N T 16 6144 4096 align=16",
    "tf32 N T 128 512 512 align=16",
    "bf16 N T 64 64 65536 align=16",
    "bf16 N T 3 5000 777",
    "fp16 N T 256 512 256 order=column align=16 out=fp32"};

DeviceCaps h200() { return cuda_caps_named("sm_90a").value(); }

/// Every `step`-th legal point of a family: spaces have thousands.
template <typename C>
std::vector<Config> some(const SearchSpace& space, std::size_t step) {
  std::vector<Config> all, out;
  for (const auto& c : space.legal)
    if (c.is<C>()) all.push_back(c);
  for (std::size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

class Spaces : public testing::TestWithParam<const char*> {};

TEST_P(Spaces, MapsAreWhatTheDriverTakes) {
  const Gemm gemm = parse_gemm(GetParam()).value();
  const auto space = space_for(Problem::of(gemm).value(), h200());
  ASSERT_TRUE(space) << space.error().message;
  const auto configs = some<CudaWgmma>(*space, 7);
  ASSERT_FALSE(configs.empty());
  for (const auto& config : configs) {
    const GpuLaunch launch =
        family_of(config, Vendor::nvidia).launch(space->problem, h200(), config);
    for (const auto& map : launch.maps) {
      const int size = map.element == MapElement::u8                                       ? 1
                       : map.element == MapElement::bf16 || map.element == MapElement::f16 ? 2
                                                                                           : 4;
      const int row = int(map.box[0]) * size;
      const int span = map.swizzle == MapSwizzle::b128  ? 128
                       : map.swizzle == MapSwizzle::b64 ? 64
                       : map.swizzle == MapSwizzle::b32 ? 32
                                                        : 16;
      EXPECT_EQ(row, span) << text(config);
      for (int d = 0; d < map.rank; ++d) {
        EXPECT_GE(map.box[std::size_t(d)], 1u) << text(config);
        EXPECT_LE(map.box[std::size_t(d)], 256u) << text(config);
      }
      for (int d = 0; d + 1 < map.rank; ++d)
        EXPECT_EQ(map.strides[std::size_t(d)] % 16, 0u) << text(config);
      EXPECT_EQ(map.offset % 128, 0) << text(config);
    }
  }
}

TEST_P(Spaces, LaunchesFitTheDevice) {
  const Gemm gemm = parse_gemm(GetParam()).value();
  const auto space = space_for(Problem::of(gemm).value(), h200());
  ASSERT_TRUE(space) << space.error().message;
  for (std::size_t i = 0; i < space->legal.size(); i += 5) {
    const auto& config = space->legal[i];
    const GpuLaunch launch =
        family_of(config, Vendor::nvidia).launch(space->problem, h200(), config);
    EXPECT_LE(launch.zeroed_bytes, launch.workspace_bytes);
    for (const auto& step : launch.steps) {
      EXPECT_LE(step.dynamic_shared_bytes, h200().gpu.shared_block_bytes) << text(config);
      EXPECT_LE(step.block.count(), h200().gpu.threads_block) << text(config);
      EXPECT_EQ(step.grid.x % step.cluster.x, 0u) << text(config);
      for (const int map : step.maps) EXPECT_LT(std::size_t(map), launch.maps.size());
    }
    EXPECT_GT(predict_ns(space->problem, h200(), config), 0) << text(config);
  }
}

/// One stage of the ring is exactly what the copies of all sharers bring.
TEST_P(Spaces, CopiesFillAStage) {
  const Gemm gemm = parse_gemm(GetParam()).value();
  const auto space = space_for(Problem::of(gemm).value(), h200());
  ASSERT_TRUE(space);
  for (const auto& config : some<CudaWgmma>(*space, 11)) {
    const auto& c = config.as<CudaWgmma>();
    const auto w = cuda::wgmma_sizes(space->problem, h200(), c);
    const GpuLaunch launch =
        family_of(config, Vendor::nvidia).launch(space->problem, h200(), config);
    const auto bytes = [&](const TensorMapSpec& map, bool across, int tile, int sharers) {
      const int boxes = across ? (tile + 63) / 64 : 1;
      return std::int64_t(boxes) * sharers * map.box[1] * 128;
    };
    EXPECT_EQ(bytes(launch.maps[0], w.left.across_k, c.left, c.cluster_right) +
                  bytes(launch.maps[1], w.right.across_k, c.right, c.cluster_left),
              w.stage_bytes)
        << text(config);
  }
}

TEST_P(Spaces, RenderWithoutTemplateMarks) {
  const Gemm gemm = parse_gemm(GetParam()).value();
  const auto space = space_for(Problem::of(gemm).value(), h200());
  ASSERT_TRUE(space);
  for (std::size_t i = 0; i < space->legal.size(); i += 97) {
    if (family_of(space->legal[i], Vendor::nvidia).files.empty())
      continue;  // a library's choice has no source
    const auto source = render(Problem::of(gemm).value(), h200(), space->legal[i]);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_THAT(source->text, Not(HasSubstr("//%")));
    EXPECT_THAT(source->text, Not(HasSubstr("#include")));
    EXPECT_THAT(source->text, HasSubstr("kiln_gemm"));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Spaces, testing::ValuesIn(kShapes));

TEST(CudaSimtSpace, LaunchesFitTheDevice) {
  for (const char* line : {"fp32 N N 2560 2560 2560 align=16", "fp64 N T 300 200 1000",
                           "bf16 T T 77 55 333 batch=4", "fp32 N N 64 64 65536"}) {
    const auto space = space_for(Problem::of(parse_gemm(line).value()).value(), h200());
    ASSERT_TRUE(space) << space.error().message;
    const auto configs = some<CudaSimt>(*space, 3);
    ASSERT_FALSE(configs.empty()) << line;
    bool cut = false;
    for (const auto& config : configs) {
      const auto& c = config.as<CudaSimt>();
      const GpuLaunch launch =
          family_of(config, Vendor::nvidia).launch(space->problem, h200(), config);
      ASSERT_EQ(launch.steps.size(), 1u);
      const GpuStep& step = launch.steps[0];
      EXPECT_LE((step.dynamic_shared_bytes + 1024) * c.resident, h200().gpu.shared_unit_bytes);
      EXPECT_LE(step.block.count() * c.resident, h200().gpu.threads_unit) << text(config);
      const bool parts = c.sharing != Sharing::tiles;
      EXPECT_EQ(launch.zeroed_bytes > 0, parts) << text(config);
      if (c.sharing == Sharing::stream) {
        EXPECT_LE(int(step.grid.x), h200().compute_units * c.resident) << text(config);
      }
      EXPECT_GT(predict_ns(space->problem, h200(), config), 0) << text(config);
      cut = cut || parts;
    }
    EXPECT_TRUE(cut) << line;
  }
}

TEST(CudaSimtRules, NameWhatIsWrong) {
  const auto problem = Problem::of(parse_gemm("fp32 N N 1024 1024 1024 align=16").value()).value();
  const auto broken = [&](CudaSimt c, const char* device = "sm_90a") {
    return broken_rule(problem, cuda_caps_named(device).value(), c);
  };
  EXPECT_EQ(broken({}), "");
  EXPECT_EQ(broken({.lanes_m = 3}),
            "lanes_m is a power of two up to 32, block_m a multiple of lanes_m*thread_m and "
            "block_n of 32/lanes_m*thread_n, and the warps fit a block");
  EXPECT_EQ(broken({.block_k = 12}),
            "block_k is a power of two from 4 to 64 (1 with stages=0), and threads divide the "
            "copies of A and B evenly");
  EXPECT_EQ(
      broken({.width_a = 8}),
      "a read of several elements is 2 to 16 bytes, a power of two that divides the alignment");
  const char* by =
      "copy=async and copy=warps need sm_80 and copies of 4, 8 or 16 bytes of the accumulator's "
      "type (or tf32), of one element along k";
  EXPECT_EQ(broken({.width_b = 4, .copy = SimtCopy::async, .stages = 3}), "");
  EXPECT_EQ(broken({.width_a = 4, .copy = SimtCopy::async}), by);  // A would have to be turned
  EXPECT_EQ(broken({.copy = SimtCopy::async}, "sm_75"), by);
  EXPECT_EQ(broken({.stages = 3}),
            "stages is 0 to 8, at most 2 with copy=registers, 2 or more with ahead=1; stages=0 "
            "needs lines=plain and order=pairs");
  EXPECT_EQ(broken({.thread_n = 16, .resident = 4}),
            "accumulators, operands and copies in flight fit the registers of resident blocks");
  EXPECT_EQ(broken({.splits = 2}),
            "splits is 2 to 64 and at most the passes over k with sharing=split, otherwise 1");
  EXPECT_EQ(
      broken(
          {.block_m = 96, .block_n = 64, .block_k = 8, .thread_m = 3, .order = SimtOrder::folded}),
      "order=folded needs an even thread_m");
}

TEST(CudaSimtRules, WithoutKNothingIsCut) {
  const auto problem = Problem::of(parse_gemm("fp32 N N 4096 4096 0").value()).value();
  EXPECT_EQ(broken_rule(problem, h200(), CudaSimt{}), "");
  EXPECT_EQ(broken_rule(problem, h200(), CudaSimt{.sharing = Sharing::stream}),
            "sharing=stream needs k >= 1, and stream-K shares of k fit 31 bits");
}

/// What the threads that multiply take is what those that copy give, of what a launch hands out.
TEST(CudaSimtSpace, RegistersOfWarpsThatCopyAddUp) {
  for (const char* name : {"sm_90a", "sm_100a", "sm_120a"}) {
    const DeviceCaps device = cuda_caps_named(name).value();
    const auto space =
        space_for(Problem::of(parse_gemm("fp32 N N 1000 1000 1000").value()).value(), device)
            .value();
    int fed = 0;
    for (const Config& config : space.legal) {
      const auto c = config.if_is<CudaSimt>();
      if (!c || c->copy != SimtCopy::warps) continue;
      ++fed;
      const auto w = cuda::simt_sizes(space.problem, device, *c);
      const int given = (w.consumer_registers + cuda::kSimtProducerRegisters) / 2;
      EXPECT_EQ(w.block_threads, 2 * w.threads) << text(config);
      EXPECT_EQ(given % 8, 0) << text(config);
      EXPECT_LE(given * w.block_threads * c->resident, device.gpu.registers_unit) << text(config);
      EXPECT_EQ(w.consumer_registers % 8, 0) << text(config);
      EXPECT_GT(w.consumer_registers, given) << text(config);
      EXPECT_LE(w.consumer_registers, 240) << text(config);
    }
    EXPECT_GT(fed, 0) << name;
  }
}

TEST(CudaSimtRules, WarpsThatCopyNeedHopperAndRegistersToGive) {
  const auto problem = Problem::of(parse_gemm("fp32 N N 1024 1024 1024 align=16").value()).value();
  const auto broken = [&](CudaSimt c, const char* device = "sm_90a") {
    c.copy = SimtCopy::warps;
    return broken_rule(problem, cuda_caps_named(device).value(), c);
  };
  const CudaSimt point{.thread_n = 16, .stages = 4, .ahead = true, .resident = 2, .unroll = 8};
  EXPECT_EQ(broken(point), "");
  const char* registers =
      "copy=warps needs sm_90a or a later arch-specific target, stages >= 2, ahead=1, "
      "lines=padded, whole "
      "consumer warpgroups and registers for them; other copies need unroll=0";
  EXPECT_EQ(broken(point, "sm_89"), registers);
  auto c = point;
  c.resident = 1;  // a launch gives every thread what it may have at most
  EXPECT_EQ(broken(c), registers);
  c = point, c.ahead = false;
  EXPECT_EQ(broken(c), registers);
  c = point, c.block_m = 64;  // 64 threads: no whole warpgroup
  EXPECT_EQ(broken(c), registers);
  const char* turn = "copy=warps needs an even unroll that divides block_k";
  for (const int unroll : {0, 3, 6, 32}) {
    c = point, c.unroll = unroll;
    EXPECT_EQ(broken(c), turn) << unroll;
  }
  EXPECT_EQ(broken_rule(problem, h200(), CudaSimt{.unroll = 4}), registers);
}

/// The first proposals of a search, before anything was measured.
std::vector<CudaWgmma> first_guesses(const char* line) {
  const auto space = space_for(Problem::of(parse_gemm(line).value()).value(), h200());
  std::vector<CudaWgmma> guesses;
  for (const Config& config : Proposer(*space, 1).next(16, 0))
    if (const auto c = config.if_is<CudaWgmma>()) guesses.push_back(*c);
  return guesses;
}

/// Sums of 8-bit floats that are not promoted are refused where k is long: a search that begins
/// with them may end before it finds a right kernel.
TEST(CudaWgmmaModel, PromotesFirstWhereKIsLong) {
  const auto raw = [](const CudaWgmma& c) { return !c.promote && c.splits == 1; };
  const auto longest = first_guesses("fp8 N T 16384 16384 16384 align=16 numerics=fast");
  ASSERT_GE(longest.size(), 8u);
  EXPECT_EQ(std::count_if(longest.begin(), longest.end(), raw), 0);
  const auto shorter = first_guesses("fp8 N T 4096 4096 4096 align=16 numerics=fast");
  EXPECT_GE(std::count_if(shorter.begin(), shorter.end(), raw), 4);
  // Cut k is as short as its parts.
  const auto thin = first_guesses("fp8 N T 64 64 65536 align=16 numerics=fast");
  EXPECT_TRUE(std::any_of(thin.begin(), thin.end(),
                          [](const CudaWgmma& c) { return !c.promote && c.splits > 4; }));
}

TEST(CudaGemvModel, ShiftsWhereRowsBeginAnywhere) {
  const auto first = [](const char* line) {
    const auto space = space_for(Problem::of(parse_gemm(line).value()).value(), h200()).value();
    return text(*std::min_element(
        space.legal.begin(), space.legal.end(), [&](const auto& x, const auto& y) {
          return predict_ns(space.problem, h200(), x) < predict_ns(space.problem, h200(), y);
        }));
  };
  EXPECT_THAT(first("bf16 N T 3 5000 777"), testing::ContainsRegex("cuda_gemv.* width=0"));
  EXPECT_THAT(first("fp32 N T 2 4096 4095"), testing::ContainsRegex("cuda_gemv.* width=0"));
  EXPECT_THAT(first("fp32 N T 2 4096 4096 align=16"),
              testing::ContainsRegex("cuda_gemv.* width=4"));
}

TEST(CudaFallback, IsLegalEverywhere) {
  for (const char* device : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    const auto caps = cuda_caps_named(device).value();
    for (const char* line :
         {"fp32 N N 1 1 0", "bf16 T T 77 55 33 batch=4", "fp64 N T 1000 3 7", "int8 T N 5 600 33",
          "fp16 N N 33 65 17 order=column epilogue=bias_row+silu", "tf32 N N 100 100 100"}) {
      const auto problem = Problem::of(parse_gemm(line).value()).value();
      const auto config = fallback_config(problem, caps);
      EXPECT_EQ(broken_rule(problem, caps, config), "") << device << ": " << line;
    }
  }
}

TEST(CudaWgmmaRules, NameWhatIsWrong) {
  const auto problem = Problem::of(parse_gemm("bf16 N T 1024 1024 1024 align=16").value()).value();
  const auto broken = [&](CudaWgmma c) { return broken_rule(problem, h200(), c); };
  EXPECT_EQ(broken({}), "");
  EXPECT_EQ(broken({.right = 20}),
            "left is a multiple of 64, right of 8 (of 16 above 32 for integers), both at most 256");
  EXPECT_EQ(broken({.stages = 5}), "stages is 2 to 64, and stages fit shared memory");
  EXPECT_EQ(broken({.pingpong = true}),
            "accumulators, register operands and scales fit the registers");
  EXPECT_EQ(broken({.right = 128, .promote = true}),
            "promote=1 needs 8-bit float operands or halves=1");
  EXPECT_EQ(
      broken({.splits = 4}),
      "splits is 2 to 128 and at most the stages of k with sharing=split or summed, otherwise 1");
  EXPECT_EQ(broken_rule(problem, cuda_caps_named("sm_80").value(), CudaWgmma{}),
            "the device is sm_90a");
  const auto odd = Problem::of(parse_gemm("bf16 N T 1023 1023 1023").value()).value();
  EXPECT_EQ(broken_rule(odd, h200(), CudaWgmma{}), "pack_a=0 needs an A that TMA can address");
  EXPECT_EQ(broken_rule(odd, h200(), CudaWgmma{.pack_a = true}),
            "pack_b=0 needs a B that TMA can address");
  EXPECT_EQ(broken_rule(odd, h200(), CudaWgmma{.pack_a = true, .pack_b = true}), "");
  // An operand's pitch is its own affair: an odd n misaligns D alone, an odd m an A that lies
  // across k.
  const auto of_d = Problem::of(parse_gemm("bf16 N T 64 1023 1024 align=16").value()).value();
  EXPECT_EQ(broken_rule(of_d, h200(), CudaWgmma{}), "");
  const auto of_a = Problem::of(parse_gemm("bf16 T N 1023 1024 1024 align=16").value()).value();
  EXPECT_EQ(broken_rule(of_a, h200(), CudaWgmma{}), "pack_a=0 needs an A that TMA can address");
  EXPECT_EQ(broken_rule(of_a, h200(), CudaWgmma{.pack_a = true}), "");
  // A line of 4.8 GB: what packs counts its bytes in 32 bits.
  const auto longest = Problem::of(parse_gemm("tf32 N T 64 64 1200000001").value()).value();
  const CudaWgmma both{
      .left = 64, .right = 64, .stages = 2, .warpgroups = 1, .pack_a = true, .pack_b = true};
  EXPECT_EQ(broken_rule(longest, h200(), both),
            "packed operands are less than 32 GiB, each of their lines less than 4 GiB");
  const auto few = Problem::of(parse_gemm("tf32 N T 2 2 1200000001").value()).value();
  EXPECT_EQ(broken_rule(few, h200(), both),
            "packed operands are less than 32 GiB, each of their lines less than 4 GiB");
}

/// The kinds of way out of a tile that the space offers.
struct WaysOut {
  bool unpaired = false, paired = false, summed = false;
  bool operator==(const WaysOut&) const = default;
};

WaysOut ways_out(const char* line) {
  WaysOut ways;
  const auto space = space_for(Problem::of(parse_gemm(line).value()).value(), h200()).value();
  for (const Config& config : space.legal)
    if (const auto c = config.if_is<CudaWgmma>()) {
      const bool summed = c->sharing == Sharing::summed;
      ways.summed = ways.summed || summed;
      ways.paired = ways.paired || c->paired;
      ways.unpaired = ways.unpaired || (!c->paired && !summed);
      // The second launch stores D, so that pairs would only be another name for the same code.
      EXPECT_FALSE(c->paired && summed) << text(config);
    }
  return ways;
}

/// None of them stands in for another: which is fastest is for the race to find.
TEST(CudaWgmmaSpace, RowsOfDAtAnyAddressMayLeaveInEachWay) {
  EXPECT_EQ(ways_out("bf16 N T 200 201 20000"),
            (WaysOut{.unpaired = true, .paired = true, .summed = true}));
  EXPECT_EQ(ways_out("bf16 N T 200 208 20000 align=16"),
            (WaysOut{.unpaired = true, .paired = false, .summed = true}));
}

}  // namespace kiln::cuda_generator_test
