// Grouped products on NVIDIA's GPUs, without one: sampled configs of the families that compute
// them, on random ragged problems, run lane by lane.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "generator/problem/groups.h"
#include "support/emulated.h"
#include "support/gpu_gemm.h"
#include "support/seed.h"

namespace kiln::emulated_groups_test {

/// Rows of one matrix and masked ones in turn, tight and aligned for TMA.
Gemm grouped_copy(Gemm gemm, int number, std::mt19937_64& random) {
  gemm.c.order = gemm.d.order = Order::row_major;
  if (gemm.scale_a == Scale::square_128) gemm.scale_a = Scale::line_128;
  gemm = gemm.grouped(1 + static_cast<std::int64_t>(random() % 6),
                      number % 2 == 0 ? Grouping::rows : Grouping::masked);
  gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
  gemm.k = (gemm.k + 15) / 16 * 16;
  gemm.n = (gemm.n + 15) / 16 * 16;
  gemm.a.order = Order::row_major;
  gemm.a.transposed = false;
  gemm.alignment = natural_alignment(gemm);
  return gemm;
}

TEST(EmulatedGroups, SampledConfigsAreRight) {
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 4;  // persistent blocks then take several tiles each
  const std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(fp16, fp16), *type_row(s8, s8),
                                  *type_row(fp8_e4m3, fp8_e4m3),
                                  *type_row(DType::tf32, DType::tf32)};
  std::mt19937_64 random(test::seed_of_run());
  test::RandomGpuGemm draw(test::seed_of_run(), 200);
  const int wanted = 24 * test::thorough();
  int proven = 0;
  for (int tries = 0; proven < wanted && tries < 50 * wanted; ++tries) {
    const Gemm gemm = grouped_copy(draw.next(rows), tries, random);
    if (!validate(gemm)) continue;
    const auto space = space_for(gemm, device);
    if (!space) continue;
    const Config config = space->legal[random() % space->legal.size()];
    const std::string what =
        fmt::format("KILN_SEED={}: {} | {}", test::seed_of_run(), text(gemm), text(config));
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const int number = proven++;
    const Verdict verdict = test::verify_emulated(
        gemm, *kernel, number % 3 == 0 ? 0 : static_cast<std::uint64_t>(number) + 7);
    EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
  }
  EXPECT_EQ(proven, wanted);
}

}  // namespace kiln::emulated_groups_test
