// The warp matrix family without a device: instructions, banks of shared memory, spaces, rules.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/mma/sizes.h"
#include "generator/render/render.h"
#include "generator/space/family.h"

#define KILN_DEVICE inline
#include "templates/cuda/common/banks.h"
#undef KILN_DEVICE

namespace kiln::cuda_mma_test {

using cuda::TileLines;

constexpr DType kElements[] = {s8, bf16, tf32, fp64};

DeviceCaps device(const char* name) { return cuda_caps_named(name).value(); }
Problem problem(const char* line) { return Problem::of(parse_gemm(line).value()).value(); }

/// Calls `visit` for tiles of all element sizes, directions and usual extents.
template <typename Visit>
void visit_tiles(Visit visit) {
  for (const DType type : kElements)
    for (const bool is_a : {false, true})
      for (const bool along_k : {false, true})
        for (const int rows : {32, 64, 96, 128, 192, 256})
          for (const int bytes : {64, 128, 256})
            visit(TileLines{type, is_a, along_k, rows, bytes / size_of(type)});
}

std::string name_of(const TileLines& t) {
  return fmt::format("{} {} {} rows {} k {}", name(t.type), t.is_a ? "A" : "B",
                     t.along_k ? "along k" : "across k", t.rows, t.k);
}

TEST(CudaBanks, CountsTurns) {
  std::array<int, 32> at{};
  for (int lane = 0; lane < 32; ++lane) at[std::size_t(lane)] = lane * 16;
  EXPECT_EQ(cuda::turns_lost(at, 16), 0);
  for (int lane = 0; lane < 32; ++lane) at[std::size_t(lane)] = lane * 128;
  EXPECT_EQ(cuda::turns_lost(at, 16), 4 * 7) << "8 lanes in one column of banks, four times";
  EXPECT_EQ(cuda::turns_lost(at, 8), 2 * 15);
  EXPECT_EQ(cuda::turns_lost(at, 4), 31);
  at.fill(64);
  EXPECT_EQ(cuda::turns_lost(at, 4), 0) << "one word for all";
}

TEST(CudaBanks, TilesThatTheSpaceOffersHaveNoConflicts) {
  int without = 0, plain_conflicts = 0;
  visit_tiles([&](const TileLines& t) {
    const auto e = cuda::conflict_free(t);
    if (!e) {
      // Dealt lines are not neighbours, so that they must fill the banks by themselves.
      EXPECT_TRUE(t.type == s8 && !t.along_k && t.rows % 64 != 0) << name_of(t);
      return void(++without);
    }
    EXPECT_TRUE(cuda::is_sound(t, *e)) << name_of(t);
    EXPECT_EQ(cuda::turns_lost(t, *e), 0) << name_of(t);
    plain_conflicts += cuda::turns_lost(t, Exchange{}) > 0;
  });
  EXPECT_LE(without, 2 * 2 * 3);
  EXPECT_GT(plain_conflicts, 200) << "lines in their plain order are not a solution";
}

TEST(CudaBanks, ExchangesStayWithinLinesAndKeepUnitsWhole) {
  visit_tiles([&](const TileLines& t) {
    const auto e = cuda::conflict_free(t);
    if (!e) return;
    for (int line = 0; line < t.lines(); ++line) {
      std::set<int> seen;
      for (int byte = 0; byte < t.pitch(); byte += 16) {
        const int at = exchanged_byte(line, byte, e->bits, e->base, e->shift);
        EXPECT_TRUE(at >= 0 && at < t.pitch() && at % 16 == 0 && seen.insert(at).second)
            << name_of(t) << " line " << line;
        EXPECT_EQ(exchanged_byte(line, byte + 7, e->bits, e->base, e->shift), at + 7);
      }
    }
  });
}

/// What a reader adds to its first line changes no exchanged bit: it works them out once.
TEST(CudaBanks, AllLinesOfALaneExchangeTheSame) {
  visit_tiles([&](const TileLines& t) {
    const auto e = cuda::conflict_free(t);
    if (!e) return;
    const int size = size_of(t.type), step = t.along_k || size <= 2 ? 8 : 4;
    for (int lane = 0; lane < 32; ++lane) {
      const int line = lane_place(size, t.along_k, t.is_a, lane).line;
      for (int more = 0; line + more < t.lines(); more += step)
        EXPECT_EQ(exchanged_byte(line, 0, e->bits, e->base, e->shift),
                  exchanged_byte(line + more, 0, e->bits, e->base, e->shift))
            << name_of(t);
    }
  });
}

TEST(CudaBanks, UnsoundExchangesAreRefused) {
  const TileLines t{bf16, true, true, 64, 64};
  EXPECT_TRUE(cuda::is_sound(t, {3, 4, 0}));
  EXPECT_FALSE(cuda::is_sound(t, {3, 5, 0})) << "leaves the line";
  EXPECT_FALSE(cuda::is_sound(t, {3, 4, 1})) << "not the same for all lines of a lane";
  EXPECT_FALSE(cuda::is_sound(t, {2, 3, 0})) << "breaks units of 16 bytes";
  EXPECT_FALSE(cuda::is_sound(t, {0, 4, 0})) << "another spelling of none";
}

TEST(CudaBanks, RowsAndLinesAreDealtOnce) {
  for (const int near : {1, 2, 4}) {
    std::set<int> rows;
    for (int group = 0; group < 8; ++group)
      for (int slot = 0; slot < 8; ++slot) rows.insert(row_in_tile(group, slot, near));
    EXPECT_EQ(rows.size(), 64u);
    EXPECT_EQ(*rows.rbegin(), 63);
  }
  std::set<int> places;
  for (int line = 0; line < 32; ++line) places.insert(place_of_line(line, 1, false));
  EXPECT_EQ(places.size(), 32u);
  EXPECT_EQ(*places.rbegin(), 31);
}

TEST(CudaMmaInstructions, AreThoseOfTheDevice) {
  const auto depths = [](const char* arch, const char* line) {
    return cuda::mma_depths(parse_gemm(line).value(), device(arch));
  };
  EXPECT_EQ(depths("sm_75", "fp16 N N 64 64 64"), std::vector{8});
  EXPECT_EQ(depths("sm_75", "bf16 N N 64 64 64"), std::vector<int>{});
  EXPECT_EQ(depths("sm_80", "fp16 N N 64 64 64"), std::vector{16});
  EXPECT_EQ(depths("sm_80", "u8s8 N N 64 64 64"), std::vector{32});
  EXPECT_EQ(depths("sm_86", "fp8 N N 64 64 64"), std::vector<int>{});
  EXPECT_EQ(depths("sm_89", "e4m3e5m2 N N 64 64 64"), std::vector{32});
  EXPECT_EQ(depths("sm_80", "fp64 N N 64 64 64"), std::vector{4});
  EXPECT_EQ(depths("sm_90a", "fp64 N N 64 64 64"), (std::vector{8, 16}));
  EXPECT_EQ(depths("sm_90a", "fp32 N N 64 64 64"), std::vector<int>{});
}

constexpr std::pair<const char*, const char*> kProblems[] = {
    {"sm_90a", "fp64 N N 4096 4096 4096 align=16"},
    {"sm_90a", "tf32 T T 1000 1000 1000 align=16"},
    {"sm_90a", "fp64 T N 33 2000 5000"},
    {"sm_80", "bf16 N T 4096 4096 4096 align=16"},
    {"sm_80", "int8 T N 300 500 700"},
    {"sm_75", "fp16 T T 1023 1023 1023"},
    {"sm_89", "fp8 N N 16 6144 4096 align=16 numerics=fast"},
    {"sm_120a", "fp16 N N 512 512 512 batch=3"}};

TEST(CudaMmaSpace, LaunchesFitTheDevice) {
  int streams = 0;
  for (const auto& [arch, line] : kProblems) {
    const DeviceCaps caps = device(arch);
    const auto space = space_for(Problem::of(parse_gemm(line).value()).value(), caps);
    ASSERT_TRUE(space) << space.error().message;
    int seen = 0;
    for (const Config& config : space->legal) {
      if (!config.is<CudaMma>() || seen++ % 5 != 0) continue;
      const auto& c = config.as<CudaMma>();
      const auto w = cuda::mma_sizes(space->problem, caps, c);
      const GpuLaunch launch =
          family_of(config, Vendor::nvidia).launch(space->problem, caps, config);
      ASSERT_EQ(launch.steps.size(), 1u);
      const GpuStep& step = launch.steps.front();
      EXPECT_LE(step.dynamic_shared_bytes, caps.gpu.shared_block_bytes) << text(config);
      EXPECT_LE(step.dynamic_shared_bytes * std::int64_t{w.blocks}, caps.gpu.shared_unit_bytes);
      EXPECT_LE(step.block.count(), caps.gpu.threads_block) << text(config);
      EXPECT_LE(launch.zeroed_bytes, launch.workspace_bytes);
      EXPECT_EQ(launch.workspace_bytes > 0, c.sharing() != Sharing::tiles) << text(config);
      EXPECT_EQ(step.overlaps_previous, caps.gpu.sm >= 90);
      const std::int64_t together = std::int64_t{w.blocks} * caps.compute_units;
      EXPECT_EQ(step.grid.count(),
                c.stream ? std::min(together, w.tiles * w.stages_of_k) : w.tiles * c.splits)
          << text(config);
      streams += c.stream;
      EXPECT_GT(predict_ns(space->problem, caps, config), 0) << text(config);
      EXPECT_EQ(parse_config(text(config)).value(), config);
    }
    EXPECT_GT(seen, 20) << arch << " " << line;
  }
  EXPECT_GT(streams, 20);
}

/// The best tile of doubles on Hopper: its registers are counted to the last one.
TEST(CudaMmaRules, LargeTilesOfDoublesFit) {
  const auto p = problem("fp64 N N 4096 4096 4096 align=16");
  CudaMma c{.block_k = 16, .stages = 6, .instruction_k = 8, .ahead = true};
  c.bits_a = c.bits_b = 2;
  c.base_a = c.base_b = 5;
  for (c.stream = false;; c.stream = true) {
    EXPECT_EQ(broken_rule(p, device("sm_90a"), c), "") << text(c);
    if (c.stream) break;
  }
  c.instruction_k = 16, c.block_k = 32, c.stages = 3;
  EXPECT_EQ(broken_rule(p, device("sm_90a"), c), "accumulators and operands fit the registers");
}

TEST(CudaMmaRules, NameWhatIsWrong) {
  const auto p = problem("bf16 N T 1024 1024 1024 align=16");
  const auto broken = [&](CudaMma c) { return broken_rule(p, device("sm_80"), c); };
  EXPECT_EQ(broken({}), "");
  EXPECT_EQ(broken({.instruction_k = 8}),
            "the device has a matrix instruction of instruction_k for the types; m, n, k are at "
            "least 1, B is not packed");
  EXPECT_EQ(broken({.block_m = 0}),
            "block_m and block_n are 16 to 256, block_k 8 to 256, stages 2 to 16, group 1 to 64, "
            "with at most 32 warps");
  EXPECT_EQ(broken({.warps_m = 3}),
            "a warp's part of the tile is a multiple of 16 x 16, and the warps fit a block");
  EXPECT_EQ(broken({.block_k = 72}),
            "block_k is whole steps of the instruction, an even number with ahead=1");
  EXPECT_EQ(
      broken({.block_k = 16, .bits_a = 1, .shift_a = 2, .bits_b = 1, .shift_b = 2, .ahead = true}),
      "block_k is whole steps of the instruction, an even number with ahead=1");
  EXPECT_EQ(broken({.bits_a = 0, .base_a = 0}), "the swizzles of A and B leave no bank conflicts");
  EXPECT_EQ(broken({.block_m = 256, .block_n = 256}),
            "accumulators and operands fit the registers");
  EXPECT_EQ(broken({.stages = 8}), "stages fit shared memory");
  EXPECT_EQ(broken({.splits = 20}),
            "splits is 1 to 64, at most the stages of k, and 1 with stream=1");
  EXPECT_EQ(broken({.splits = 2, .stream = true}),
            "splits is 1 to 64, at most the stages of k, and 1 with stream=1");
  EXPECT_EQ(broken_rule(p, device("sm_75"), CudaMma{}),
            "the device has a matrix instruction of instruction_k for the types; m, n, k are at "
            "least 1, B is not packed");
  const auto odd = problem("bf16 N T 1023 1023 1023");
  EXPECT_EQ(broken_rule(odd, device("sm_80"), CudaMma{}),
            "copies without cp.async need stages=2 and ahead=0");
  EXPECT_EQ(broken_rule(odd, device("sm_80"), CudaMma{.stages = 2}), "");
}

}  // namespace kiln::cuda_mma_test
