// Products of 8-bit integers with scales, as quantised models have them: sampled configs of each
// family that computes them on random ragged problems, GPUs' lane by lane, CPUs' as they are, with
// the verification that the tuner has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "generator/families/cpu/packed/config.h"
#include "generator/space/space.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/prove.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "support/space.h"
#include "tuner/verify/verify.h"

namespace kiln::integer_scales_test {

constexpr Scale kKinds[] = {Scale::line, Scale::tensor};
constexpr DType kOutputs[] = {fp32, bf16, fp16};

/// Scales on one side at least, and often zero points of A.
template <typename Random>
Gemm scaled(Random& random, Gemm gemm) {
  gemm = gemm.output(kOutputs[random.below(3)]).with_zero_points_of_a(Zero::none);
  const auto kind = [&] { return kKinds[random.below(2)]; };
  switch (random.below(4)) {
    case 0:
      gemm = gemm.scaled(kind(), Scale::none);
      break;
    case 1:
      return gemm.scaled(Scale::none, kind());
    default:
      gemm = gemm.scaled(kind(), kind());
  }
  const Zero zero = kind() == Scale::line ? Zero::line : Zero::tensor;
  const Gemm zeros = gemm.with_zero_points_of_a(zero);
  return validate(zeros) && random.below(3) != 0 ? zeros : gemm;
}

class IntegerScales : public testing::TestWithParam<test::Target> {};

TEST_P(IntegerScales, SampledConfigsAreRight) {
  std::vector<TypeRow> rows;
  for (const TypeRow& row : kTypeRows)
    if (row.accumulator == s32) rows.push_back(row);
  const bool few_rows = std::string_view(GetParam().family).starts_with("cuda_gemv");
  test::prove(GetParam(), [&](test::RandomGpuGemm& random) {
    for (;;) {
      Gemm gemm = scaled(random, random.next(rows));
      if (few_rows) gemm.m = 1 + gemm.m % 8;
      if (!gemm.epilogue.gate && gemm.d.order == Order::row_major && random.below(4) == 0) {
        gemm = gemm.grouped(3, random.below(2) == 0 ? Grouping::rows : Grouping::masked);
        gemm.a.batch_stride = gemm.c.batch_stride = gemm.d.batch_stride = 0;
      }
      if (validate(gemm)) return gemm;
    }
  });
}

constexpr test::Target kTargets[] = {
    {.arch = "sm_90a", .family = "cuda_wgmma", .configs = 8, .largest = 300, .tries = 60},
    {.arch = "sm_80", .family = "cuda_mma", .configs = 6, .largest = 150, .tries = 60},
    {.arch = "sm_90a", .family = "cuda_simt", .configs = 4, .largest = 120, .tries = 60},
    {.arch = "sm_80", .family = "cuda_gemv", .configs = 4, .largest = 200, .tries = 60},
    {.arch = "sm_80", .family = "cuda_gemv_n", .configs = 4, .largest = 200, .tries = 60},
    {.arch = "gfx942", .family = "hip_mfma", .configs = 4, .largest = 150, .tries = 60},
    {.arch = "gfx1100", .family = "hip_simt", .configs = 4, .largest = 100, .tries = 60}};

INSTANTIATE_TEST_SUITE_P(Families, IntegerScales, testing::ValuesIn(kTargets),
                         [](const auto& info) {
                           return fmt::format("{}_{}", info.param.arch, info.param.family);
                         });

/// One config of each family, and what runs without a search.
std::vector<Config> sample(const Gemm& gemm, const DeviceCaps& device, test::RandomGemm& random) {
  const auto space = test::space_of(gemm, device).value();
  std::map<std::string_view, std::vector<Config>> by_family;
  for (const Config& config : space.legal) by_family[family_name(config)].push_back(config);
  std::vector<Config> chosen{fallback_config(space.problem, device)};
  for (auto& [family, configs] : by_family) chosen.push_back(configs[random.below(configs.size())]);
  return chosen;
}

class IntegerScalesOnCpus : public testing::TestWithParam<const char*> {};

TEST_P(IntegerScalesOnCpus, SampledConfigsAreRight) {
  test::Attempt attempt;
  test::RandomGemm random(test::seed_of_run() + 500);
  int checked = 0;
  for (int i = 0; i < 9 * test::thorough(); ++i) {
    const auto device = test::runnable(GetParam(), 1 + i % 3);
    if (!device) GTEST_SKIP() << "this machine cannot run its code";
    const auto& types = kCpuTypeRows[4 + static_cast<std::size_t>(i) % 3];
    ASSERT_EQ(types.accumulator, s32);
    Gemm gemm = scaled(random, random.next(types));
    if (random.below(3) == 0) gemm.b_packed = true;
    if (!validate(gemm)) gemm.b_packed = false;
    if (!validate(gemm)) continue;
    auto verifier = Verifier::make(gemm, {.seed = 5, .effort = Effort::full});
    ASSERT_TRUE(verifier) << text(gemm) << ": " << verifier.error().message;
    for (const Config& config : sample(gemm, *device, random)) {
      const std::string what =
          fmt::format("KILN_SEED={}: {} | {} | threads {}", test::seed_of_run(), text(gemm),
                      text(config), device->compute_units);
      attempt.at(what);
      const Verdict verdict = test::check_compiled(*verifier, *device, config);
      EXPECT_TRUE(verdict) << what << ": " << verdict.error().detail;
      ++checked;
    }
  }
  EXPECT_GT(checked, 9);
}

/// Tiles of D^T have D's rows as columns; each batch has scales and zero points of its own.
TEST(IntegerScalesOfBatches, AreTheirOwnWhereTheProductIsTransposed) {
  const auto device = test::runnable("portable", 1);
  if (!device) GTEST_SKIP() << "this machine cannot run its code";
  const Gemm gemm = Gemm::row_major(37, 21, 50, s8)
                        .transpose_b()
                        .batched(3)
                        .output(fp32)
                        .scaled(Scale::line)
                        .with_zero_points_of_a();
  const auto space = test::space_of(gemm, *device).value();
  auto verifier = Verifier::make(gemm, {.seed = 5, .effort = Effort::full});
  ASSERT_TRUE(verifier);
  int checked = 0;
  for (const Config& config : space.legal) {
    const auto packed = config.if_is<HostPacked>();
    if (!packed || !packed->swap || checked == 3) continue;
    auto kernel = test::compiled(gemm, *device, config);
    ASSERT_TRUE(kernel) << text(config) << ": " << kernel.error().message;
    const auto verdict = verifier->check([&](const Operands& o) { return kernel->run(o); });
    EXPECT_TRUE(verdict) << text(config) << ": " << verdict.error().detail;
    ++checked;
  }
  EXPECT_EQ(checked, 3);
}

INSTANTIATE_TEST_SUITE_P(Cpus, IntegerScalesOnCpus,
                         testing::Values("portable", "avx2", "avx512", "avx512_vnni", "amx"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace kiln::integer_scales_test
