// Products of bf16 that are computed as fp32: host_packed with widen=1 where the CPU multiplies
// pairs slowly, host_small everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/small/config.h"
#include "generator/space/space.h"
#include "generator/space/summation.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/space.h"
#include "tuner/verify/verify.h"

namespace kiln::widened_products_test {

const Gemm kGemm = parse_gemm("bf16 T N 40 12 70 out=fp32").value();

HostPacked widened() {
  return {.mr = 6, .nv = 2, .kc = 24, .mc = 12, .nc = 64, .pack_b = false, .widen = true};
}

template <typename C, typename Wanted>
bool offered(const Gemm& gemm, const char* cpu, Wanted&& wanted) {
  const auto space = test::space_of(gemm, cpu_caps_named(cpu).value());
  return space && std::ranges::any_of(space->legal, [&](const Config& config) {
           return config.is<C>() && wanted(config.as<C>());
         });
}

TEST(WidenedProducts, AreOfferedWherePairsAreSlow) {
  const auto widens = [](const HostPacked& c) { return c.widen; };
  EXPECT_TRUE(offered<HostPacked>(kGemm, "amx", widens));
  EXPECT_FALSE(offered<HostPacked>(kGemm, "avx512_bf16", widens));
  EXPECT_FALSE(offered<HostPacked>(kGemm, "avx512", widens)) << "it has no pairs";
  const auto any = [](const HostSmall&) { return true; };
  EXPECT_TRUE(offered<HostSmall>(kGemm, "avx512_bf16", any));
}

TEST(WidenedProducts, NeedPairsAndNoPackedWeights) {
  const DeviceCaps amx = cpu_caps_named("amx").value();
  const auto broken = [&](const char* shape, HostPacked config, const DeviceCaps& device) {
    return std::string(broken_rule(Problem::of(parse_gemm(shape).value()).value(), device, config));
  };
  EXPECT_EQ(broken("bf16 T N 40 12 70", widened(), amx), "");
  EXPECT_EQ(broken("bf16 T N 40 12 70", widened(), cpu_caps_named("avx512_bf16").value()), "");
  EXPECT_NE(broken("fp16 T N 40 12 70", widened(), amx).find("widen=1"), std::string::npos);
  EXPECT_NE(broken("bf16 T N 40 12 70", widened(), cpu_caps_named("avx512").value()).find("widen"),
            std::string::npos);
  HostPacked packed = widened();
  packed.pack_b = true;
  EXPECT_NE(broken("bf16 N T 40 12 70 packed_b=1", packed, amx).find("widen=0"), std::string::npos);
}

TEST(WidenedProducts, AreChainsOfFusedMultiplyAdds) {
  const DeviceCaps amx = cpu_caps_named("amx").value();
  HostPacked config = widened();
  config.kc = 72;
  const Problem problem = Problem::of(kGemm).value();
  EXPECT_EQ(summation(problem, amx, config), "vfmadd231ps chain");
  EXPECT_EQ(flushed_by(kGemm, amx, config), 0);
  config.widen = false;
  EXPECT_EQ(summation(problem, amx, config), "vdpbf16ps chain");
  EXPECT_GT(flushed_by(kGemm, amx, config), 0);
}

/// vdpbf16ps flushes denormals; fp32 keeps them, and so does the rounding to bf16 that follows.
TEST(WidenedProducts, KeepDenormals) {
  const auto device = test::runnable("avx512_bf16", 1);
  if (!device) GTEST_SKIP() << "no AVX512-BF16";
  test::Attempt attempt;
  for (const char* shape : {"bf16 T N 40 12 70 out=fp32", "bf16 T T 41 9 33"}) {
    const Gemm gemm = parse_gemm(shape).value();
    for (const bool swap : {false, true}) {
      HostPacked config = widened();
      config.swap = swap;
      config.pack_b = !swap;
      ASSERT_EQ(broken_rule(Problem::of(gemm).value(), *device, config), "") << text(config);
      attempt.at(text(config));
      auto verifier = Verifier::make(gemm, {.seed = 3, .effort = Effort::full});
      ASSERT_TRUE(verifier);
      auto kernel = test::compiled(gemm, *device, config);
      ASSERT_TRUE(kernel) << kernel.error().message;
      const auto verdict =
          verifier->check([&](const Operands& operands) { return kernel->run(operands); });
      EXPECT_TRUE(verdict) << shape << " | " << text(config) << ": " << verdict.error().detail;
    }
  }
}

}  // namespace kiln::widened_products_test
