// GPU kernels without a GPU: sampled configs of random ragged problems, every family and target,
// run lane by lane in the plain order and in drawn ones, and checked as the tuner checks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "generator/families/cuda/wgmma/config.h"
#include "support/prove.h"

namespace kiln::emulated_test {

using test::any_of;
using test::prove;
using test::rows_of;
using test::Target;

class Emulated : public testing::TestWithParam<Target> {};

const auto kAnyConfig = [](const Gemm&, const Config&) { return true; };

TEST_P(Emulated, SampledConfigsAreRight) {
  const auto rows = rows_of(GetParam());
  ASSERT_FALSE(rows.empty());
  prove(GetParam(), any_of(rows), kAnyConfig,
        GetParam().every_type ? rows : std::vector<TypeRow>{});
}

std::string name_of(const testing::TestParamInfo<Target>& info) {
  return fmt::format("{}_{}", info.param.arch, info.param.family);
}

/// tf32 operands that lie across k and are not packed reach the instruction through registers: rare
/// among all configs, so they are drawn on their own. Every problem has some, so there is one try.
TEST(EmulatedRegisters, SampledConfigsAreRight) {
  const Target target{
      .arch = "sm_90a", .family = "cuda_wgmma", .configs = 8, .largest = 280, .tries = 1};
  const auto draw = [&](test::RandomGpuGemm& random) {
    // A across k, or B: either may be the instruction's left operand.
    const char* layout = random.below(2) != 0 ? "T T" : "N N";
    const auto size = [&] { return 4 * (1 + random.below(std::uint64_t(target.largest) / 4)); };
    const auto m = size(), n = size(), k = size(), batch = 1 + random.below(2);
    return parse_gemm(fmt::format("tf32 {} {} {} {} align=16 batch={}", layout, m, n, k, batch))
        .value();
  };
  prove(target, draw, [](const Gemm& gemm, const Config& config) {
    const auto& c = config.as<CudaWgmma>();
    if (c.pack_a || c.pack_b) return false;
    EXPECT_EQ(c.swap, !gemm.a.transposed)
        << "the left operand is the one across k: " << text(gemm) << " | " << text(config);
    return true;
  });
}

/// Cut k whose pieces a launch of its own adds: every type, epilogue and way to store.
TEST(EmulatedSums, SampledConfigsAreRight) {
  // Units enough for the pieces to run at once, which is when they are offered.
  const Target target{.arch = "sm_90a",
                      .family = "cuda_wgmma",
                      .configs = 8,
                      .largest = 600,
                      .units = 24,
                      .tries = 50};
  const auto rows = rows_of(target);
  ASSERT_FALSE(rows.empty());
  prove(target, any_of(rows), [](const Gemm&, const Config& config) {
    return config.as<CudaWgmma>().sharing == Sharing::summed;
  });
}

INSTANTIATE_TEST_SUITE_P(Families, Emulated, testing::ValuesIn(test::kDrawnOnTheEmulator), name_of);

}  // namespace kiln::emulated_test
