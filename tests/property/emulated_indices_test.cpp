// Grouped products whose rows are by index on GPUs, without one: sampled configs of the families
// that compute them, on random ragged problems, run lane by lane.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "generator/problem/indices.h"
#include "generator/problem/spelling.h"
#include "support/emulated.h"
#include "support/gpu_gemm.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::emulated_indices_test {

/// Of three problems one gathers, one scatters or adds rows, one does both; every other one is as
/// TMA wants it.
Gemm indexed_copy(Gemm gemm, int number, std::mt19937_64& random) {
  gemm.c.order = gemm.d.order = Order::row_major;
  if (gemm.a.q.scale == Scale::square_128) gemm.a.q.scale = Scale::line_128;
  gemm = gemm.grouped(1 + static_cast<std::int64_t>(random() % 6), Grouping::rows);
  gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
  const auto rows = [&] { return static_cast<std::int64_t>(random() % 400); };
  if (number % 3 != 0) {
    gemm = gemm.gathered(rows());
    gemm.a.order = Order::row_major;
    gemm.a.transposed = false;
    if (random() % 2 == 0) gemm.a.ld = gemm.k + 8;
  }
  if (number % 3 != 1) {
    constexpr Scatter kKinds[] = {Scatter::rows, Scatter::add, Scatter::weighted};
    gemm.epilogue.residual = false;
    gemm = gemm.scattered(rows(), kKinds[random() % 3]);
    if (adds_rows(gemm)) gemm.epilogue.bias_as_d = false;
  }
  if (number % 2 == 0) {
    gemm.k = (gemm.k + 15) / 16 * 16;
    gemm.n = (gemm.n + 15) / 16 * 16;
    gemm.a.ld = 0;
    gemm.a.order = Order::row_major;
    gemm.a.transposed = false;
    gemm.b.order = Order::row_major;
    gemm.b.transposed = true;
  }
  gemm.alignment = kUsualAlignment;
  return gemm;
}

std::map<std::string, std::vector<Config>> by_family(const Gemm& gemm, const DeviceCaps& device) {
  std::map<std::string, std::vector<Config>> all;
  if (const auto space = test::space_of(gemm, device))
    for (const Config& config : space->legal)
      all[std::string(family_name(config))].push_back(config);
  return all;
}

class EmulatedIndices : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedIndices, SampledConfigsAreRight) {
  DeviceCaps device = caps_named(GetParam()).value();
  device.compute_units = 4;  // persistent blocks then take several tiles each
  std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(fp16, fp16), *type_row(s8, s8),
                            *type_row(fp32, fp32), *type_row(DType::tf32, DType::tf32)};
  if (device.gpu.sm >= 89) rows.push_back(*type_row(fp8_e4m3, fp8_e4m3));
  std::mt19937_64 random(test::seed_of_run() + 61);
  test::RandomGpuGemm draw(test::seed_of_run() + 61, 200);
  std::map<std::string, int> proven;
  const int wanted = 12 * test::thorough();
  const auto least = [&] {
    int few = proven.empty() ? 0 : wanted;
    for (const auto& [family, count] : proven) few = std::min(few, count);
    return few;
  };
  for (int tries = 0; least() < wanted && tries < 50 * wanted; ++tries) {
    const Gemm gemm = indexed_copy(draw.next(rows), tries, random);
    if (!validate(gemm)) continue;
    for (const auto& [family, configs] : by_family(gemm, device)) {
      if (proven[family] >= wanted) continue;
      const Config config = configs[random() % configs.size()];
      const std::string what =
          fmt::format("KILN_SEED={}: {} | {}", test::seed_of_run(), text(gemm), text(config));
      const auto kernel = test::emulated_kernel(gemm, device, config);
      ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
      const int number = proven[family]++;
      const Verdict verdict = test::verify_emulated(
          gemm, *kernel, number % 3 == 0 ? 0 : static_cast<std::uint64_t>(number) + 7);
      EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
    }
  }
  EXPECT_EQ(least(), wanted);
  EXPECT_EQ(proven.count("cuda_mma"), 1);
  EXPECT_EQ(proven.count("cuda_simt"), 1);
  EXPECT_EQ(proven.count("cuda_wgmma"), device.gpu.sm == 90 ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, EmulatedIndices, testing::Values("sm_90a", "sm_80", "sm_75"));

}  // namespace kiln::emulated_indices_test
