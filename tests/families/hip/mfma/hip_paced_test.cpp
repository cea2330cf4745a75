// The paces of hip_mfma as the compiler leaves them: what stands in the main loop, and in what
// order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mfma/sizes.h"
#include "runtime/hip/code_object.h"
#include "runtime/hip/compilers.h"
#include "runtime/hip/isa_counts.h"
#include "support/hip.h"

namespace kiln::hip::hip_paced_test {

using test::problem;

struct Case {
  const char* device;
  const char* line;
  HipMfma config;
  double others;  // per matrix instruction, fewer than
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.device << ": " << c.line << " | " << text(Config(c.config));
}

std::vector<Wait> waits_for(const LoopCounts& loop, Wait::For kind) {
  std::vector<Wait> waits;
  for (const Wait& wait : loop.waits)
    if (wait.kind == kind) waits.push_back(wait);
  return waits;
}

/// Matrix instructions that stand together, for each place of `letter` behind it.
std::vector<std::size_t> products_behind(const std::string& order, char letter) {
  std::string kept;
  for (const char c : order)
    if (c == letter || c == 'M' || c == 'B') kept += c;
  std::vector<std::size_t> runs;
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (kept[i] == letter)
      runs.push_back(std::min(kept.find_first_not_of('M', i + 1), kept.size()) - i - 1);
  return runs;
}

/// The stage is loaded behind the first reads, and waited for once, behind the last: half of its
/// products lie between, and another wave's as well.
void expect_one_late_wait(const LoopCounts& loop) {
  const auto waits = waits_for(loop, Wait::For::memory);
  ASSERT_EQ(waits.size(), 1u) << loop.order;
  EXPECT_EQ(waits[0].accesses, loop.counts.memory_loads) << loop.order;
  EXPECT_GE(waits[0].matrix, loop.counts.matrix / 2) << loop.order;
  // Behind the last reads, which come after all loads.
  const auto wait = loop.order.find('m');
  EXPECT_EQ(loop.order.find('R', wait), std::string::npos) << loop.order;
}

/// Accesses to shared memory lie between products, and every wait for loads lets later ones go on.
void expect_interleaved(const LoopCounts& loop, const MfmaSizes& plan) {
  const int of_step = plan.pieces * plan.blocks_m * plan.blocks_n;
  for (const std::size_t run : products_behind(loop.order, 'W')) EXPECT_GE(run, 1u) << loop.order;
  for (const Wait& wait : waits_for(loop, Wait::For::shared)) {
    // What is waited for whole was on its way during a quarter of a step's products at least.
    if (wait.left == 0) {
      EXPECT_GE(wait.matrix, of_step / 4) << loop.order;
    }
  }
  for (const Wait& wait : waits_for(loop, Wait::For::memory)) {
    EXPECT_GE(wait.matrix, loop.counts.matrix / 2) << loop.order;
  }
}

class Paced : public testing::TestWithParam<Case> {};

TEST_P(Paced, LoopsAreAsTheyWereMeant) {
  const Case& c = GetParam();
  const DeviceCaps device = hip_caps_named(c.device).value();
  const Gemm gemm = problem(c.line);
  const auto source = render(Problem::of(gemm).value(), device, c.config);
  ASSERT_TRUE(source) << source.error().message;
  const auto clang = clang_compiler();
  ASSERT_TRUE(clang) << clang.error().message;
  const auto binary = (*clang)->compile(*source);
  ASSERT_TRUE(binary) << binary.error().message;
  EXPECT_EQ(binary->resources.spills, 0);
  EXPECT_EQ(binary->resources.stack_bytes, 0);
  const auto assembly = (*clang)->assembly(*source);
  ASSERT_TRUE(assembly) << assembly.error().message;
  const auto loops = count_loops(*assembly);
  const LoopCounts* loop = main_loop(loops);
  ASSERT_NE(loop, nullptr);
  const MfmaSizes plan = mfma_sizes(Problem::of(gemm).value(), device, c.config);
  const int blocks = plan.blocks_m * plan.blocks_n;
  EXPECT_EQ(loop->counts.matrix, plan.steps * plan.pieces * blocks);
  EXPECT_EQ(loop->counts.spills, 0);
  const int reads = plan.steps * plan.step_units *
                    (plan.blocks_m * (1 + plan.turned_a) + plan.blocks_n * (1 + plan.turned_b));
  EXPECT_EQ(loop->counts.shared_reads, reads);
  EXPECT_LT(loop->counts.others_per_matrix(), c.others);
  std::printf("%s %s\n  %s\n  %.2f others each (%d + %d shared, %d memory, %d vector, %d scalar)\n",
              c.device, c.line, text(Config(c.config)).c_str(), loop->counts.others_per_matrix(),
              loop->counts.shared_reads, loop->counts.shared_writes, loop->counts.memory_loads,
              loop->counts.vector, loop->counts.scalar);
  if (c.config.pace == Pace::interleaved) {
    expect_interleaved(*loop, plan);
    return;
  }
  EXPECT_EQ(loop->counts.barriers, 2 * plan.steps * plan.parts);
  if (c.config.staging == Staging::direct) expect_one_late_wait(*loop);
}

TEST(CountedLoops, WaitsKnowWhatTheyWaitFor) {
  const auto loops = count_loops(R"(
.LBB0_1:
	s_waitcnt vmcnt(1)
	ds_write_b128 v0, v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]
	s_waitcnt vmcnt(0) lgkmcnt(0) ; both at once
	s_barrier
	ds_read_b128 v[4:7], v1
	ds_read_b128 v[8:11], v1 offset:16
	buffer_load_dwordx4 v[12:15], v2, s[0:3], 0 offen
	v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]
	buffer_load_dwordx4 v2, s[0:3], 0 offen lds
	s_cbranch_scc0 .LBB0_2
	s_branch .LBB0_3
	s_endpgm
.LBB0_3:
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]
	s_cbranch_scc0 .LBB0_1
.LBB0_2:
)");
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].order, "mWMmsBRRLMDsM");
  using enum Wait::For;
  // The first wait meets the load before the last product but one; at the second the direct load is
  // two products old, the read left over and the write waited for with it are one.
  EXPECT_THAT(loops[0].waits,
              testing::ElementsAre(Wait{memory, 1, 1, 2, 0}, Wait{memory, 0, 1, 2, 0},
                                   Wait{shared, 0, 2, 1, 0}, Wait{shared, 1, 1, 1, 0}));
}

constexpr const char* kBf16 = "bf16 N T 8192 8192 8192 align=16";
/// Turned over, operands take twice as many reads.
constexpr const char* kBf16Across = "bf16 T N 8192 8192 8192 align=16";

INSTANTIATE_TEST_SUITE_P(
    Kernels, Paced,
    testing::Values(
        Case{"gfx942",
             kBf16,
             {.rows = 16,
              .k = 16,
              .tile_m = 128,
              .tile_n = 256,
              .depth = 64,
              .staging = Staging::twice,
              .pace = Pace::pingpong},
             2},
        Case{"gfx942",
             kBf16,
             {.rows = 16,
              .k = 16,
              .tile_m = 128,
              .tile_n = 256,
              .depth = 128,
              .waves_m = 2,
              .waves_n = 2,
              .staging = Staging::single,
              .pace = Pace::interleaved},
             1},
        Case{"gfx942",
             kBf16,
             {.rows = 16,
              .k = 16,
              .tile_m = 128,
              .tile_n = 128,
              .depth = 128,
              .waves_m = 2,
              .waves_n = 2,
              .staging = Staging::single,
              .pace = Pace::interleaved},
             1.2},
        Case{"gfx942",
             kBf16,
             {.rows = 16,
              .k = 16,
              .tile_m = 128,
              .tile_n = 128,
              .depth = 128,
              .waves_m = 2,
              .waves_n = 2,
              .staging = Staging::twice,
              .pace = Pace::interleaved},
             1.5},
        Case{"gfx950",
             kBf16,
             {.rows = 16, .k = 32, .staging = Staging::direct, .chunk = 64, .pace = Pace::pingpong},
             2},
        Case{"gfx950",
             kBf16,
             {.rows = 16,
              .k = 32,
              .waves_m = 2,
              .waves_n = 2,
              .staging = Staging::direct,
              .chunk = 64,
              .pace = Pace::interleaved},
             2},
        Case{
            "gfx950",
            "fp8 N T 8192 8192 8192 align=16",
            {.rows = 16, .k = 128, .staging = Staging::direct, .chunk = 64, .pace = Pace::pingpong},
            4},
        Case{"gfx950",
             kBf16Across,
             {.rows = 16,
              .k = 32,
              .staging = Staging::direct,
              .chunk = 64,
              .pace = Pace::pingpong,
              .turn = true},
             2.5},
        Case{"gfx950",
             kBf16Across,
             {.rows = 16,
              .k = 32,
              .tile_m = 128,
              .tile_n = 256,
              .depth = 128,
              .waves_m = 2,
              .waves_n = 2,
              .staging = Staging::direct,
              .chunk = 64,
              .pace = Pace::interleaved,
              .turn = true},
             2.5},
        Case{"gfx950",
             "fp8 T N 8192 8192 8192 align=16",
             {.rows = 16,
              .k = 128,
              .staging = Staging::direct,
              .chunk = 64,
              .pace = Pace::pingpong,
              .turn = true},
             5}));

}  // namespace kiln::hip::hip_paced_test
