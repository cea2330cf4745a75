// Grouped products on CPUs: sampled configs of every family that computes them, each called for one
// group after the other, on every kind of CPU that this machine can stand for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/space/space.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "support/space.h"
#include "tuner/verify/verify.h"

namespace kiln::grouped_kernels_test {

/// As drawn, but for D in rows and tight matrices.
Gemm grouped_copy(Gemm gemm, Grouping how, std::int64_t groups) {
  gemm.b_packed = false;
  gemm.c.order = gemm.d.order = Order::row_major;
  gemm = gemm.grouped(groups, how);
  if (how == Grouping::list) gemm.a.q.zero = Zero::none;
  gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
  return gemm;
}

/// Of groups of rows: in two of three problems rows of A are by index, or rows of D, or both.
Gemm with_indices(Gemm gemm, test::RandomGemm& random) {
  if (gemm.grouping() != Grouping::rows) return gemm;
  const std::uint64_t kind = random.below(4);  // rows of D are also added
  const auto rows = [&] { return static_cast<std::int64_t>(random.below(2 * gemm.m + 1)); };
  if (kind % 2 == 1) {
    gemm.a.order = Order::row_major;
    gemm.a.transposed = false;
    gemm = gemm.gathered(rows());
    if (random.below(2) == 0) gemm.a.ld = gemm.k + 5;
  }
  if (kind < 2) return gemm;
  constexpr Scatter kKinds[] = {Scatter::rows, Scatter::add, Scatter::weighted};
  gemm.epilogue.residual = false;
  gemm = gemm.scattered(rows(), kKinds[random.below(3)]);
  if (adds_rows(gemm)) gemm.epilogue.bias_as_d = false;
  return gemm;
}

/// One config of each family.
std::vector<Config> sample(const Gemm& gemm, const DeviceCaps& device, test::RandomGemm& random) {
  const auto space = test::space_of(gemm, device).value();
  std::map<std::string_view, std::vector<Config>> by_family;
  for (const Config& config : space.legal) by_family[family_name(config)].push_back(config);
  std::vector<Config> chosen{fallback_config(space.problem, device)};
  for (auto& [family, configs] : by_family) chosen.push_back(configs[random.below(configs.size())]);
  return chosen;
}

class GroupedKernels : public testing::TestWithParam<const char*> {};

TEST_P(GroupedKernels, AreRight) {
  constexpr Grouping kKinds[] = {Grouping::k, Grouping::rows, Grouping::list, Grouping::masked};
  test::Attempt attempt;
  test::RandomGemm random(test::seed_of_run() + 400);
  int checked = 0;
  for (int i = 0; i < 12 * test::thorough(); ++i) {
    const auto device = test::runnable(GetParam(), 1 + i % 3);
    if (!device) GTEST_SKIP() << "this machine cannot run its code";
    const auto& types = kCpuTypeRows[static_cast<std::size_t>(i) % kCpuTypeRows.size()];
    Gemm gemm = with_indices(grouped_copy(random.next(types), kKinds[i % 4],
                                          1 + static_cast<std::int64_t>(random.below(7))),
                             random);
    if (!validate(gemm)) continue;
    if (const Gemm with = gemm.with_amax_d(); random.one_in(3) && validate(with)) gemm = with;
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
  EXPECT_GT(checked, 12);
}

INSTANTIATE_TEST_SUITE_P(Cpus, GroupedKernels,
                         testing::Values("portable", "avx2", "avx512", "avx512_bf16", "amx"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace kiln::grouped_kernels_test
