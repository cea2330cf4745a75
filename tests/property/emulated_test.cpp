// GPU kernels without a GPU: sampled configs of random ragged problems, every family and target,
// run lane by lane in the plain order and in drawn ones, and checked as the tuner checks.
#include "support/emulated.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/gpu_gemm.h"

namespace kiln {
namespace {

struct Target {
  const char* arch;
  const char* family;
  int configs;
  std::int64_t largest;  // size of a problem
};

/// KILN_SEED repeats a run; without it every run draws anew.
std::uint64_t seed_of_run() {
  static const std::uint64_t seed = [] {
    if (const char* given = std::getenv("KILN_SEED")) return std::strtoull(given, nullptr, 10);
    return static_cast<unsigned long long>(std::random_device{}());
  }();
  return seed;
}

class Emulated : public testing::TestWithParam<Target> {};

/// The type rows for which the target has this family at all.
std::vector<TypeRow> rows_of(const Target& target, const DeviceCaps& device) {
  std::vector<TypeRow> rows;
  for (const TypeRow& row : kTypeRows) {
    Gemm g = Gemm::row_major(8, 64, 64).transpose_b();
    g.a.dtype = row.a, g.b.dtype = row.b, g.accumulator = row.accumulator;
    g.c.dtype = g.d.dtype = row.usual_output();
    const auto space = space_for(g, device);
    if (!space) continue;
    for (const Config& config : space->legal)
      if (family_name(config) == target.family) {
        rows.push_back(row);
        break;
      }
  }
  return rows;
}

TEST_P(Emulated, SampledConfigsAreRight) {
  const Target& target = GetParam();
  DeviceCaps device = caps_named(target.arch).value();
  // Few units: persistent blocks then take several tiles each.
  device.compute_units = 6;
  const std::uint64_t seed = seed_of_run();
  RecordProperty("seed", fmt::format("{}", seed));
  test::RandomGpuGemm random(seed, target.largest);
  const auto rows = rows_of(target, device);
  ASSERT_FALSE(rows.empty());
  int proven = 0;
  for (int tries = 0; proven < target.configs && tries < target.configs * 20; ++tries) {
    const Gemm gemm = random.next(rows);
    const auto space = space_for(gemm, device);
    if (!space) continue;
    std::vector<Config> mine;
    for (const Config& config : space->legal)
      if (family_name(config) == target.family) mine.push_back(config);
    if (mine.empty()) continue;
    const Config& config = mine[random.below(mine.size())];
    const std::string what = fmt::format("KILN_SEED={}: {} | {}", seed, text(gemm), text(config));
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const std::uint64_t order = proven % 4 == 0 ? 0 : seed + static_cast<std::uint64_t>(proven);
    const Verdict verdict = test::verify_emulated(gemm, *kernel, order);
    EXPECT_TRUE(verdict) << what << " | order " << order << ": "
                         << (verdict ? "" : verdict.error().detail);
    ++proven;
  }
  EXPECT_EQ(proven, target.configs);
}

std::string name_of(const testing::TestParamInfo<Target>& info) {
  return fmt::format("{}_{}", info.param.arch, info.param.family);
}

/// tf32 operands that lie across k and are not packed reach the instruction through registers: rare
/// among all configs, so they are drawn on their own.
TEST(EmulatedRegisters, SampledConfigsAreRight) {
  constexpr int kConfigs = 30;
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 6;
  const std::uint64_t seed = seed_of_run();
  RecordProperty("seed", fmt::format("{}", seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  for (int proven = 0; proven < kConfigs; ++proven) {
    // B across k, or A: either may be the instruction's left operand.
    const bool a_across = below(2) != 0;
    const auto line =
        fmt::format("tf32 {} {} {} {} align=16 batch={}", a_across ? "T T" : "N N",
                    4 * (1 + below(70)), 4 * (1 + below(70)), 4 * (1 + below(70)), 1 + below(2));
    const Gemm gemm = parse_gemm(line).value();
    std::vector<Config> mine;
    const auto space = space_for(gemm, device);
    ASSERT_TRUE(space) << line;
    for (const Config& config : space->legal)
      if (const auto* c = std::get_if<CudaWgmma>(&config); c && !c->pack_a && !c->pack_b)
        mine.push_back(config);
    ASSERT_FALSE(mine.empty()) << line;
    const Config& config = mine[below(mine.size())];
    EXPECT_EQ(std::get<CudaWgmma>(config).swap, !a_across)
        << "the left operand is the one across k";
    const std::string what = fmt::format("KILN_SEED={}: {} | {}", seed, line, text(config));
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const Verdict verdict = test::verify_emulated(gemm, *kernel, proven % 4 == 0 ? 0 : seed + 1);
    EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
  }
}

/// Cut k whose pieces a launch of its own adds: every type, epilogue and way to store.
TEST(EmulatedSums, SampledConfigsAreRight) {
  constexpr int kConfigs = 20;
  const Target target{"sm_90a", "cuda_wgmma", kConfigs, 600};
  DeviceCaps device = caps_named(target.arch).value();
  device.compute_units = 24;
  const std::uint64_t seed = seed_of_run();
  RecordProperty("seed", fmt::format("{}", seed));
  test::RandomGpuGemm random(seed, target.largest);
  const auto rows = rows_of(target, device);
  int proven = 0;
  for (int tries = 0; proven < kConfigs && tries < 50 * kConfigs; ++tries) {
    const Gemm gemm = random.next(rows);
    const auto space = space_for(gemm, device);
    if (!space) continue;
    std::vector<Config> mine;
    for (const Config& config : space->legal)
      if (const auto* c = std::get_if<CudaWgmma>(&config); c && c->sharing == Sharing::summed)
        mine.push_back(config);
    if (mine.empty()) continue;
    const Config& config = mine[random.below(mine.size())];
    const std::string what = fmt::format("KILN_SEED={}: {} | {}", seed, text(gemm), text(config));
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const Verdict verdict = test::verify_emulated(gemm, *kernel, proven % 4 == 0 ? 0 : seed + 1);
    EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
    ++proven;
  }
  EXPECT_EQ(proven, kConfigs);
}

INSTANTIATE_TEST_SUITE_P(
    Amd, Emulated,
    testing::Values(Target{"gfx90a", "hip_mfma", 30, 200}, Target{"gfx942", "hip_mfma", 30, 200},
                    Target{"gfx950", "hip_mfma", 30, 200}, Target{"gfx90a", "hip_simt", 30, 100},
                    Target{"gfx942", "hip_simt", 30, 100}, Target{"gfx950", "hip_simt", 30, 100},
                    Target{"gfx1100", "hip_simt", 30, 100}, Target{"gfx1200", "hip_simt", 30, 100}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Nvidia, Emulated,
    testing::Values(Target{"sm_90a", "cuda_wgmma", 30, 300}, Target{"sm_75", "cuda_simt", 30, 150},
                    Target{"sm_80", "cuda_simt", 30, 150}, Target{"sm_90a", "cuda_simt", 30, 150},
                    Target{"sm_75", "cuda_mma", 30, 150}, Target{"sm_80", "cuda_mma", 30, 150},
                    Target{"sm_89", "cuda_mma", 30, 150}, Target{"sm_90a", "cuda_mma", 30, 150},
                    Target{"sm_80", "cuda_gemv", 30, 200}, Target{"sm_90a", "cuda_gemv", 30, 200}),
    name_of);

}  // namespace
}  // namespace kiln
