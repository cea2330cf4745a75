// The paces of hip_mfma as the compiler leaves them: what stands in the main loop, and in what
// order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "generator/hip_mfma.h"
#include "runtime/hip/code_object.h"
#include "runtime/hip/compilers.h"
#include "runtime/hip/isa_counts.h"
#include "support/hip.h"

namespace kiln::hip {
namespace {

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

/// What a wave does from its first product in the loop to its last.
std::string products_of(const std::string& assembly) {
  const auto first = assembly.find("s_setprio 1"), last = assembly.rfind("s_setprio 0");
  return first == std::string::npos ? "" : assembly.substr(first, last - first);
}

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

class Paced : public testing::TestWithParam<Case> {};

TEST_P(Paced, LoopsAreAsTheyWereMeant) {
  const Case& c = GetParam();
  const DeviceCaps device = hip_caps_named(c.device).value();
  const Gemm gemm = problem(c.line);
  const auto source = render(gemm, device, c.config);
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
  const MfmaPlan plan = mfma_plan(canonicalise(gemm), device, c.config);
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
  if (c.config.pace != Pace::pingpong) return;
  EXPECT_EQ(loop->counts.barriers, 2 * plan.steps * plan.parts);
  // Loads straight into shared memory are waited for once a stage, when all is read.
  const bool once = c.config.staging == Staging::direct && !c.config.turn;
  if (once) {
    EXPECT_EQ(count(products_of(*assembly), "vmcnt(0)"), 1);
  }
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
             "fp8 T N 8192 8192 8192 align=16",
             {.rows = 16,
              .k = 128,
              .staging = Staging::direct,
              .chunk = 64,
              .pace = Pace::pingpong,
              .turn = true},
             5}));

}  // namespace
}  // namespace kiln::hip
