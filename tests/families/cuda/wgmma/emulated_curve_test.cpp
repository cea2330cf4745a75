// Kernels that walk their tiles along a curve: drawn configs are right lane by lane, and bugs
// planted in the order are caught.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma/sizes.h"
#include "generator/space/space.h"
#include "support/mutants.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::emulated_curve_test {

using test::Base;
using test::Mutant;

/// Among all configs of small problems these are rare, so they are drawn on their own.
TEST(EmulatedCurve, SampledConfigsAreRight) {
  const int configs = 4 * test::thorough();
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 6;  // few: persistent blocks then take several tiles each
  const std::uint64_t seed = test::seed_of_run();
  RecordProperty("seed", fmt::format("{}", seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  for (int proven = 0; proven < configs; ++proven) {
    const auto line =
        fmt::format("bf16 {} {} {} {} align=16 batch={}", below(2) ? "N T" : "T N",
                    8 * (33 + below(32)), 8 * (33 + below(32)), 8 * (1 + below(20)), 1 + below(2));
    const Gemm gemm = parse_gemm(line).value();
    const auto space = test::space_of(gemm, device);
    ASSERT_TRUE(space) << line;
    std::vector<Config> mine;
    const bool clusters = below(2) != 0;
    for (const Config& config : space->legal)
      if (const auto c = config.if_is<CudaWgmma>();
          c && c->along == Along::hilbert && (c->cluster_left * c->cluster_right > 1) == clusters)
        mine.push_back(config);
    ASSERT_FALSE(mine.empty()) << line;
    const Config& config = mine[below(mine.size())];
    const std::string what = fmt::format("KILN_SEED={}: {} | {}", seed, line, text(config));
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const Verdict verdict = test::verify_emulated(gemm, *kernel, proven % 4 == 0 ? 0 : seed + 1);
    EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
  }
}

// 6 x 9 tiles: whole squares, narrow ones, and a low band that is walked backwards.
const Base kCurve{"curve", "sm_90a", "bf16 N T 380 264 40 align=16",
                  CudaWgmma{.left = 64,
                            .right = 32,
                            .stages = 2,
                            .warpgroups = 1,
                            .along = Along::hilbert,
                            .group = 4}};

const std::vector<Mutant> kMutants{
    {&kCurve, "walks backwards from beyond the band", "height * rights - 1 - in_band",
     "height * rights - in_band"},
    {&kCurve, "takes low squares for whole ones", "height == side && ", ""},
    {&kCurve, "takes narrow squares for whole ones", " && (square + 1) * side <= rights", ""},
    {&kCurve, "keeps far quarters on one side", "far_right * half", "far_left * half"},
    {&kCurve, "walks the last band as if it were high", "rest < side ? rest : side", "side"},
};

TEST(CurveMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(CurveMutants, TheUnchangedKernelIsClean) { test::expect_clean({&kCurve}); }

}  // namespace kiln::emulated_curve_test
