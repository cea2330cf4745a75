// The largest magnitude of D on NVIDIA's GPUs, without one: sampled configs of every family that
// finds it, on random ragged problems of all kinds, run lane by lane.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "generator/problem/gate.h"
#include "generator/problem/spelling.h"
#include "support/emulated.h"
#include "support/gpu_gemm.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::emulated_amax_test {

/// In turn as drawn, with groups of each kind, and as codes with one scale.
Gemm with_amax(Gemm gemm, int number, std::mt19937_64& random) {
  const int kind = number % 6;
  if (kind >= 2) {
    gemm.c.order = gemm.d.order = Order::row_major;
    gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
    gemm.a.batch_stride = gemm.b.batch_stride = gemm.c.batch_stride = gemm.d.batch_stride = 0;
    gemm.alignment = kUsualAlignment;
  }
  if (kind >= 3)
    gemm =
        gemm.grouped(1 + static_cast<std::int64_t>(random() % 5), static_cast<Grouping>(kind - 2));
  if (gemm.grouping() == Grouping::rows && random() % 2 == 0) {
    gemm.epilogue.residual = false;
    gemm = gemm.scattered(static_cast<std::int64_t>(random() % 300));
  }
  if (kind == 2 || !is_floating(gemm.d.dtype)) {
    gemm.epilogue.residual = gemm.epilogue.bias_as_d = false;
    gemm.c.order = gemm.d.order = Order::row_major;
    gemm.c.ld = gemm.d.ld = gemm.c.batch_stride = gemm.d.batch_stride = 0;
    if (auto* const rows = std::get_if<GroupsOfRows>(&gemm.groups)) rows->scatter.reset();
    gemm = gemm.quantised(random() % 2 == 0 ? s8 : fp8_e4m3, Scale::tensor);
  }
  return gemm.with_amax_d();
}

/// Weights, whose sums another family finishes.
Gemm weights(std::mt19937_64& random) {
  const auto size = [&](std::uint64_t most) {
    return 1 + static_cast<std::int64_t>(random() % most);
  };
  Gemm gemm = Gemm::row_major(size(40), 2 * size(70), 64 * size(5), bf16)
                  .transpose_b()
                  .with_weights(random() % 2 == 0 ? s4 : s8, Scale::line_64);
  if (random() % 3 == 0) gemm = gemm.with_gate(Gate::silu);
  if (random() % 3 == 0)
    gemm = gemm.grouped(1 + static_cast<std::int64_t>(random() % 4),
                        random() % 2 == 0 ? Grouping::rows : Grouping::masked);
  gemm.alignment = kUsualAlignment;
  return gemm.with_amax_d();
}

class EmulatedAmax : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedAmax, SampledConfigsFindIt) {
  DeviceCaps device = caps_named(GetParam()).value();
  device.compute_units = 4;  // persistent blocks then take several tiles each
  std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(fp16, fp16), *type_row(s8, s8),
                            *type_row(fp32, fp32), *type_row(fp64, fp64)};
  if (device.gpu.sm >= 89) rows.push_back(*type_row(fp8_e4m3, fp8_e4m3));
  std::mt19937_64 random(test::seed_of_run() + 71);
  test::RandomGpuGemm draw(test::seed_of_run() + 71, 200);
  std::map<std::string, int> proven;
  const int wanted = 12 * test::thorough();
  const std::vector<std::string> families = [&] {
    std::vector<std::string> all{"cuda_simt", "cuda_mma"};
    if (device.gpu.sm >= 80) all.emplace_back("cuda_weights");
    if (device.gpu.sm == 90) all.emplace_back("cuda_wgmma");
    return all;
  }();
  const auto least = [&] {
    int few = wanted;
    for (const std::string& family : families) few = std::min(few, proven[family]);
    return few;
  };
  for (int tries = 0; least() < wanted && tries < 60 * wanted; ++tries) {
    const Gemm gemm = tries % 7 == 6 ? weights(random) : with_amax(draw.next(rows), tries, random);
    if (!validate(gemm)) continue;
    std::map<std::string, std::vector<Config>> by_family;
    const auto space = test::space_of(gemm, device);
    if (!space) continue;  // fp8 in D, or weights, where the device has no instruction
    for (const Config& config : space->legal)
      by_family[std::string(family_name(config))].push_back(config);
    for (const auto& [family, configs] : by_family) {
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
  EXPECT_EQ(proven.size(), families.size());
}

INSTANTIATE_TEST_SUITE_P(Devices, EmulatedAmax, testing::Values("sm_90a", "sm_80", "sm_75"));

}  // namespace kiln::emulated_amax_test
