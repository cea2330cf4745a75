// hip_mfma's paced kernels, and those that turn operands over while reading them, on the emulator:
// configs of just these kinds over types, layouts and ragged sizes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generator/families/hip/mfma/config.h"
#include "support/emulated.h"
#include "support/gpu_gemm.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::emulated_paced_test {

struct Target {
  const char* arch;
  std::vector<std::string> types;  // of which the target has such kernels
  bool (*wanted)(const HipMfma&);
  const char* what;
};

bool pingpong(const HipMfma& c) { return c.pace == Pace::pingpong && !c.turn; }
bool interleaved(const HipMfma& c) { return c.pace == Pace::interleaved && !c.turn; }
bool turned(const HipMfma& c) { return c.turn; }

constexpr int kConfigs = 6;
constexpr std::int64_t kLargest = 260;

class EmulatedPaced : public testing::TestWithParam<Target> {};

TEST_P(EmulatedPaced, SampledConfigsAreRight) {
  const Target& target = GetParam();
  DeviceCaps device = caps_named(target.arch).value();
  device.compute_units = 6;
  const int configs = kConfigs * test::thorough();
  const std::uint64_t seed = test::seed_of_run();
  RecordProperty("seed", fmt::format("{}", seed));
  test::RandomGpuGemm random(seed, kLargest);
  std::vector<TypeRow> rows;
  for (const TypeRow& row : kTypeRows)
    for (const std::string& word : target.types)
      if (row.word == word) rows.push_back(row);
  ASSERT_EQ(rows.size(), target.types.size());
  int proven = 0;
  for (int tries = 0; proven < configs && tries < configs * 40; ++tries) {
    const Gemm gemm = random.next(rows);
    const auto space = test::space_of(gemm, device);
    if (!space) continue;
    std::vector<Config> mine;
    for (const Config& config : space->legal)
      if (const auto c = config.if_is<HipMfma>(); c && target.wanted(*c)) mine.push_back(config);
    if (mine.empty()) continue;
    const Config& config = mine[random.below(mine.size())];
    const std::string what = fmt::format("KILN_SEED={}: {} | {}", seed, text(gemm), text(config));
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const std::uint64_t order = proven % 3 == 0 ? 0 : seed + static_cast<std::uint64_t>(proven);
    const Verdict verdict = test::verify_emulated(gemm, *kernel, order, Effort::usual);
    EXPECT_TRUE(verdict) << what << " | order " << order << ": "
                         << (verdict ? "" : verdict.error().detail);
    ++proven;
  }
  EXPECT_EQ(proven, configs);
}

INSTANTIATE_TEST_SUITE_P(
    Amd, EmulatedPaced,
    testing::Values(
        Target{"gfx942", {"bf16", "fp16", "int8", "fp8fnuz", "fp32", "tf32"}, pingpong, "pingpong"},
        Target{"gfx942", {"bf16", "fp16", "int8", "fp8fnuz", "fp64"}, interleaved, "interleaved"},
        Target{"gfx950", {"bf16", "fp16", "int8", "fp8", "e5m2e4m3"}, pingpong, "pingpong"},
        Target{"gfx950", {"bf16", "fp16", "int8", "fp8", "fp32"}, interleaved, "interleaved"},
        Target{"gfx950", {"bf16", "fp16", "int8", "fp8", "e4m3e5m2"}, turned, "turned"}),
    [](const auto& info) { return fmt::format("{}_{}", info.param.arch, info.param.what); });

}  // namespace kiln::emulated_paced_test
