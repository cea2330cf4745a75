// Gated products on CPUs: random ones of every type and layout by host_packed and host_dot, what
// their rules refuse, and that something is left of every problem.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "generator/families/cpu/dot/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/problem/gate.h"
#include "generator/space/space.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "support/space.h"
#include "tuner/verify/verify.h"

namespace kiln::gated_products_test {

constexpr const char* kCpus[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};

/// As drawn, but with a gate, and so with D in rows and of floats; the layouts are tight where they
/// would not hold both factors.
Gemm gated_copy(Gemm gemm, test::RandomGemm& random) {
  if (gated(gemm)) return gemm;
  gemm.c.order = gemm.d.order = Order::row_major;
  if (!is_floating(gemm.d.dtype)) gemm.c.dtype = gemm.d.dtype = random.one_in(2) ? fp32 : bf16;
  gemm.epilogue.activation = Activation::none;
  const auto function = static_cast<Gate>(1 + random.below(5));
  gemm.epilogue.gate = Gated{function, static_cast<GateOrder>(random.below(2))};
  if (!validate(gemm))
    for (Matrix* matrix : gemm.matrices()) matrix->ld = matrix->batch_stride = 0;
  return gemm;
}

/// The space's configs of a family, or the fallback.
std::vector<Config> configs_of(const Gemm& gemm, const DeviceCaps& device, int which) {
  const auto space = test::space_of(gemm, device).value();
  std::vector<Config> configs{fallback_config(space.problem, device)};
  if (which == 0) return configs;
  configs.clear();
  for (const Config& config : space.legal)
    if (config.is<HostDot>() == (which == 2)) configs.push_back(config);
  return configs;
}

class GatedProducts : public testing::TestWithParam<const char*> {};

TEST_P(GatedProducts, AreRight) {
  int checked = 0;
  test::Attempt attempt;
  const unsigned of_cpu = unsigned(std::ranges::find(kCpus, std::string_view(GetParam())) - kCpus);
  test::RandomGemm random(test::seed_of_run() + 77 + 1000 * of_cpu);
  for (int i = 0; i < 4 * test::thorough(); ++i) {
    const auto device = test::runnable(GetParam(), 1 + i % 2);
    if (!device) GTEST_SKIP() << "this machine cannot run its code";
    const auto& types = kCpuTypeRows[random.below(kCpuTypeRows.size())];
    const Gemm gemm = gated_copy(random.next(types), random);
    ASSERT_TRUE(validate(gemm)) << text(gemm) << ": " << validate(gemm).error().message;
    auto configs = configs_of(gemm, *device, int(random.below(4)));
    if (configs.empty()) configs = configs_of(gemm, *device, 1);
    const Config config = configs.at(random.below(configs.size()));
    const std::string what = fmt::format("KILN_SEED={}: {} | {} | threads {}", test::seed_of_run(),
                                         text(gemm), text(config), device->compute_units);
    attempt.at(what);
    auto verifier = Verifier::make(gemm, {.seed = 5, .effort = Effort::full});
    ASSERT_TRUE(verifier) << what << ": " << verifier.error().message;
    const Verdict verdict = test::check_compiled(*verifier, *device, config);
    EXPECT_TRUE(verdict) << what << ": " << verdict.error().detail;
    ++checked;
  }
  EXPECT_GE(checked, 4);
}

INSTANTIATE_TEST_SUITE_P(Cpus, GatedProducts, testing::ValuesIn(kCpus),
                         [](const auto& info) { return std::string(info.param); });

TEST(GatedProductsRules, LeaveAConfigToEveryProblem) {
  test::RandomGemm random(test::seed_of_run() + 78);
  for (int i = 0; i < 100; ++i) {
    const DeviceCaps device = cpu_caps_named(kCpus[i % std::size(kCpus)]).value();
    const auto& types = kCpuTypeRows[random.below(kCpuTypeRows.size())];
    const Gemm gemm = gated_copy(random.next(types), random);
    const Problem problem = Problem::of(gemm).value();
    ASSERT_TRUE(has_fallback(problem, device)) << device.arch << " " << text(gemm);
    EXPECT_EQ(broken_rule(problem, device, fallback_config(problem, device)), "") << text(gemm);
    const auto space = test::space_of(gemm, device);
    ASSERT_TRUE(space) << text(gemm);
    EXPECT_TRUE(std::ranges::any_of(space->legal,
                                    [](const Config& config) { return config.is<HostPacked>(); }))
        << device.arch << " " << text(gemm);
  }
}

TEST(GatedProductsRules, NameWhatATileCannotHold) {
  const DeviceCaps device = cpu_caps_named("avx512").value();
  const auto broken = [&](const char* shape, const Config& config) {
    return std::string(broken_rule(Problem::of(parse_gemm(shape).value()).value(), device, config));
  };
  const char* shape = "fp32 N T 40 96 300 gate=silu";
  const HostPacked plain{.mr = 5, .nv = 4, .kc = 64, .mc = 40, .nc = 96};
  EXPECT_EQ(broken(shape, plain), "");
  EXPECT_NE(broken("fp32 N T 40 96 300", plain), "") << "96 is half of a tile more than its own";
  for (const auto& change : std::vector<void (*)(HostPacked&)>{
           [](HostPacked& c) { c.nv = 3; }, [](HostPacked& c) { c.any_epilogue = true; },
           [](HostPacked& c) { c.swap = true; }, [](HostPacked& c) { c.parallel = Parallel::k; }}) {
    HostPacked config = plain;
    change(config);
    EXPECT_NE(broken(shape, config).find("a gate needs"), std::string::npos) << text(config);
  }
  const HostDot dot{.mr = 3, .nr = 4};
  EXPECT_EQ(broken(shape, dot), "");
  for (const auto& change : std::vector<void (*)(HostDot&)>{
           [](HostDot& c) { c.nr = 3; }, [](HostDot& c) { c.any_epilogue = true; }}) {
    HostDot config = dot;
    change(config);
    EXPECT_NE(broken(shape, config).find("a gate needs"), std::string::npos) << text(config);
  }
}

}  // namespace kiln::gated_products_test
