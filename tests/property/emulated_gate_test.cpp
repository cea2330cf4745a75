// Gated products on NVIDIA's GPUs, without one: sampled configs of every family that computes them,
// on random ragged problems, run lane by lane.
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

namespace kiln::emulated_gate_test {

/// With a gate whether or not the drawn problem has one, of either order of columns in turn.
Gemm gated_copy(const Gemm& drawn, int number) {
  if (gated(drawn)) return drawn;
  Gemm gemm = drawn.with_activation(Activation::none)
                  .with_gate(Gate::silu, static_cast<GateOrder>(number % 2));
  gemm.c.order = gemm.d.order = Order::row_major;
  gemm.d.ld = gemm.b.ld = gemm.d.batch_stride = gemm.b.batch_stride = 0;
  gemm.alignment = kUsualAlignment;
  return gemm;
}

std::map<std::string, std::vector<Config>> by_family(const Gemm& gemm, const DeviceCaps& device) {
  std::map<std::string, std::vector<Config>> all;
  if (const auto space = test::space_of(gemm, device))
    for (const Config& config : space->legal) {
      const std::string words = text(config);
      all[words.substr(0, words.find(' '))].push_back(config);
    }
  return all;
}

class Gates : public testing::TestWithParam<const char*> {};

TEST_P(Gates, SampledConfigsAreRight) {
  DeviceCaps device = caps_named(GetParam()).value();
  device.compute_units = 4;  // persistent blocks then take several tiles each
  std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(fp16, fp16), *type_row(s8, s8),
                            *type_row(fp32, fp32)};
  if (device.gpu.sm >= 89) rows.push_back(*type_row(fp8_e4m3, fp8_e4m3));
  std::mt19937_64 random(test::seed_of_run());
  test::RandomGpuGemm draw(test::seed_of_run(), 200);
  std::map<std::string, int> proven;
  const int wanted = 12 * test::thorough();
  const auto least = [&] {
    int few = proven.empty() ? 0 : wanted;
    for (const auto& [family, count] : proven) few = std::min(few, count);
    return few;
  };
  for (int tries = 0; least() < wanted && tries < 50 * wanted; ++tries) {
    const Gemm gemm = gated_copy(draw.next(rows), tries);
    if (!validate(gemm)) continue;
    const auto families = by_family(gemm, device);
    EXPECT_FALSE(families.empty()) << text(gemm);
    for (const auto& [family, configs] : families) {
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
}

INSTANTIATE_TEST_SUITE_P(Devices, Gates, testing::Values("sm_90a", "sm_80"));

}  // namespace kiln::emulated_gate_test
