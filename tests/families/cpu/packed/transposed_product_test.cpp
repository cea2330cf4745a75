// host_packed with swap=1: D^T is computed with A as the right operand, and tiles are transposed
// while they are stored. Rules, order of summation and envelope as values, kernels natively.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "generator/families/cpu/packed/config.h"
#include "generator/space/code_class.h"
#include "generator/space/space.h"
#include "generator/space/summation.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/orders.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "support/space.h"
#include "tuner/verify/envelope.h"
#include "tuner/verify/verify.h"

namespace kiln::transposed_product_test {

constexpr const char* kCpus[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};

std::vector<Config> swapped_configs(const Gemm& gemm, const DeviceCaps& device) {
  std::vector<Config> out;
  const auto space = test::space_of(gemm, device);
  if (!space) return out;
  for (const Config& config : space->legal)
    if (const auto packed = config.if_is<HostPacked>(); packed && packed->swap)
      out.push_back(config);
  return out;
}

/// Of any layout and epilogue, with few columns of D in its canonical form.
Gemm few_columns(test::RandomGemm& random, const TypeRow& types) {
  Gemm gemm = random.next(types);
  const bool swapped = Problem::of(gemm).value().swapped;
  auto& columns = swapped ? gemm.m : gemm.n;
  auto& rows = swapped ? gemm.n : gemm.m;
  columns = 1 + std::int64_t(random.below(20));
  rows = 21 + std::int64_t(random.below(150));
  for (Matrix* matrix : gemm.matrices()) matrix->ld = matrix->batch_stride = 0;
  return gemm;
}

class TransposedProduct : public testing::TestWithParam<const char*> {};

TEST_P(TransposedProduct, IsRightForRandomProblems) {
  int checked = 0;
  test::Attempt attempt;
  test::RandomGemm random(test::seed_of_run() + 41);
  for (const int threads : {1, 2}) {
    const auto device = test::runnable(GetParam(), threads);
    if (!device) GTEST_SKIP() << "this machine cannot run its code";
    for (int i = 0; i < 6 * test::thorough(); ++i) {
      const Gemm gemm = few_columns(random, kCpuTypeRows[std::size_t(i) % kCpuTypeRows.size()]);
      const auto configs = swapped_configs(gemm, *device);
      if (configs.empty()) continue;
      const Config config = configs[random.below(configs.size())];
      const std::string what = fmt::format("KILN_SEED={}: {} | {} | threads {}",
                                           test::seed_of_run(), text(gemm), text(config), threads);
      attempt.at(what);
      auto verifier = Verifier::make(gemm, {.seed = 5, .effort = Effort::full});
      ASSERT_TRUE(verifier) << what << ": " << verifier.error().message;
      const Verdict verdict = test::check_compiled(*verifier, *device, config);
      EXPECT_TRUE(verdict) << what << ": " << verdict.error().detail;
      ++checked;
    }
  }
  EXPECT_GT(checked, 6);
}

/// Whole accumulators wait between blocks of k, so one element is one chain whatever kc is, and the
/// bits are those of a config that multiplies the problem as it is.
TEST_P(TransposedProduct, HasTheBitsOfTheProductItself) {
  const auto device = test::runnable(GetParam(), 1);
  if (!device) GTEST_SKIP() << "this machine cannot run its code";
  const Gemm gemm = parse_gemm("fp32 T N 70 9 100").value();
  const std::string tile = fmt::format(
      "host_packed isa={} mr=3 nv=2 {{}} mc=9 nc={} pack_a=1 pack_b=1 inner=rows parallel=none "
      "unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0{{}}",
      device->cpu.avx512     ? "avx512"
      : device->cpu.avx2_fma ? "avx2"
                             : "portable",
      64);
  const auto config = [&](const char* kc, const char* swap) {
    return parse_config(fmt::format(fmt::runtime(tile), kc, swap)).value();
  };
  const Config direct = config("kc=104", ""), exchanged = config("kc=24", " swap=1");
  const Problem problem = Problem::of(gemm).value();
  EXPECT_EQ(summation(problem, *device, direct), summation(problem, *device, exchanged));
  const test::Pair pair{gemm, gemm, direct, exchanged, 0};
  const auto found =
      test::difference(pair, *device, [](const Gemm& g, const DeviceCaps& d, const Config& c) {
        auto kernel = test::compiled(g, d, c);
        if (!kernel) return Result<test::Run>(tl::unexpected(kernel.error()));
        auto shared = std::make_shared<BoundKernel>(std::move(*kernel));
        return Result<test::Run>(
            [shared](const Operands& operands) { return shared->run(operands); });
      });
  EXPECT_FALSE(found) << test::text_of(pair) << ": " << *found;
}

INSTANTIATE_TEST_SUITE_P(Cpus, TransposedProduct, testing::ValuesIn(kCpus),
                         [](const auto& info) { return std::string(info.param); });

HostPacked exchanged() {
  return {.mr = 5, .nv = 4, .kc = 16, .mc = 5, .nc = 256, .pack_b = false, .swap = true};
}

TEST(TransposedProductRules, NameWhatTheStoreCannotDo) {
  const DeviceCaps device = cpu_caps_named("avx512_bf16").value();
  const auto broken = [&](const char* shape, HostPacked config) {
    return std::string(broken_rule(Problem::of(parse_gemm(shape).value()).value(), device, config));
  };
  EXPECT_EQ(broken("bf16 T N 400 5 300", exchanged()), "");
  HostPacked streamed = exchanged(), split = exchanged(), packed = exchanged();
  streamed.stream_d = true;
  split.parallel = Parallel::k;
  packed.pack_b = true;
  EXPECT_NE(broken("fp32 T N 400 5 16", streamed).find("swap=1 needs"), std::string::npos);
  EXPECT_NE(broken("fp32 T N 400 5 300", split).find("swap=1 needs"), std::string::npos);
  EXPECT_NE(broken("fp32 N T 400 5 300 packed_b=1", packed).find("packed weights"),
            std::string::npos);
  // A is the right operand: read in place where its elements are adjacent along m.
  EXPECT_NE(broken("bf16 N N 400 5 300", exchanged()).find("pack_b=0"), std::string::npos);
}

TEST(TransposedProductRules, OfferItForFewColumnsAlone) {
  const DeviceCaps device = cpu_caps_named("avx512").value();
  const auto offered = [&](const char* shape) {
    return !swapped_configs(parse_gemm(shape).value(), device).empty();
  };
  EXPECT_TRUE(offered("fp32 T N 4000 5 300"));
  EXPECT_TRUE(offered("fp32 N T 4000 17 300"));
  EXPECT_TRUE(offered("fp32 N T 5 4000 300 order=column")) << "few columns of its canonical form";
  EXPECT_FALSE(offered("fp32 T N 4000 500 300"));
  EXPECT_FALSE(offered("fp32 T N 5 4000 300"));
  EXPECT_FALSE(offered("fp32 N T 4000 5 300 packed_b=1"));
}

TEST(TransposedProductRules, CountRowsOfDInItsVectors) {
  const DeviceCaps device = cpu_caps_named("avx512").value();
  const Gemm gemm = parse_gemm("fp32 T N 400 5 300").value();
  const auto problems = envelope(gemm, device, exchanged(), 0x1p24);
  const auto has = [&](auto&& wanted) { return std::ranges::any_of(problems, wanted); };
  EXPECT_TRUE(has([](const Gemm& g) { return g.n % 5 != 0 && g.m % 16 != 0 && g.m > 64; }));
  EXPECT_TRUE(has([](const Gemm& g) { return g.n > 5 && g.m > 256 && g.k > 16; }));
  HostPacked direct = exchanged();
  direct.swap = false;
  direct.pack_b = true;
  const Problem problem = Problem::of(gemm).value();
  ASSERT_EQ(broken_rule(problem, device, direct), "");
  EXPECT_NE(code_class(problem, device, direct), code_class(problem, device, exchanged()));
}

}  // namespace kiln::transposed_product_test
