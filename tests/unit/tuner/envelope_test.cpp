// The sizes over which a kernel is proved once, and which problems have one code.
#include "tuner/verify/envelope.h"

#include <gtest/gtest.h>

#include <set>

#include "generator/families/cuda/gemv/config.h"
#include "generator/space/code_class.h"
#include "generator/space/family.h"

namespace kiln::envelope_test {

const DeviceCaps kH200 = cuda_caps_named("sm_90a").value();
const Gemm kGemm = parse_gemm("bf16 N T 4096 4096 4096 align=16").value();

/// One config of each GPU family that computes kGemm on a device.
std::vector<Config> one_of_each(const Gemm& gemm, const DeviceCaps& device) {
  std::vector<Config> configs;
  std::set<std::string_view> seen;
  const SearchSpace space = space_for(Problem::of(gemm).value(), device).value();
  for (const Config& config : space.legal)
    if (seen.insert(family_name(config)).second) configs.push_back(config);
  return configs;
}

TEST(Envelope, HasTheConfigsCodeAndEverySideOfATile) {
  for (const Config& config : one_of_each(kGemm, kH200)) {
    ASSERT_TRUE(has_envelope(kGemm, kH200, config)) << text(config);
    const auto problems = envelope(kGemm, kH200, config, 0x1p34);
    EXPECT_GE(problems.size(), 30u) << text(config);
    const CodeClass own = code_class(Problem::of(kGemm).value(), kH200, config);
    const Family& family = family_of(config, kH200.vendor);
    const Tile tile = family.tile(Problem::of(kGemm).value(), kH200, config);
    bool below = false, above = false, ragged_k = false, loose = false, waves = false;
    for (const Gemm& one : problems) {
      const Problem problem = Problem::of(one).value();
      EXPECT_EQ(broken_rule(problem, kH200, config), "") << text(one);
      EXPECT_EQ(code_class(problem, kH200, config), own) << text(one);
      EXPECT_LE(one.flops() / 2, 0x1p34);
      below |= one.m < tile.m && one.m > 1;
      above |= one.m > tile.m && one.m % tile.m != 0;
      ragged_k |= one.k % tile.k != 0 || tile.k == 1;
      loose |= one.d.ld >= one.n + 16;
      waves |= one.m / tile.m * (one.n / tile.n) > 2 * kH200.compute_units;
    }
    EXPECT_TRUE(below && above && ragged_k && loose) << text(config);
    EXPECT_TRUE(waves) << text(config);
  }
}

TEST(Envelope, OfSmallWorkIsSmall) {
  const Config config = one_of_each(kGemm, kH200).front();
  for (const Gemm& one : envelope(kGemm, kH200, config, 0x1p20))
    EXPECT_LE(one.flops() / 2, 0x1p20) << text(one);
}

TEST(Envelope, KeepsASizeThatIsAConstantOfTheCode) {
  const Gemm thin = parse_gemm("bf16 N T 3 4096 4096 align=16").value();
  for (const Config& config : one_of_each(thin, kH200)) {
    if (!config.is<CudaGemv>()) continue;
    const auto problems = envelope(thin, kH200, config, 0x1p34);
    EXPECT_FALSE(problems.empty()) << text(config);
    for (const Gemm& one : problems)
      EXPECT_EQ(config.as<CudaGemv>().swap ? one.n : one.m, 3) << text(one);
  }
}

TEST(CodeClass, SizesThatAreArgumentsMakeNoDifference) {
  const Config config = one_of_each(kGemm, kH200).front();
  const auto class_of = [&](const char* shape) {
    return code_class(Problem::of(parse_gemm(shape).value()).value(), kH200, config);
  };
  const CodeClass own = class_of("bf16 N T 4096 4096 4096 align=16");
  EXPECT_EQ(class_of("bf16 N T 100 264 1000 align=16"), own);
  EXPECT_NE(class_of("bf16 N T 4096 4096 4096 align=16 epilogue=relu"), own);
  EXPECT_NE(class_of("bf16 N T 4096 4096 4096 align=16 out=fp32"), own);
}

}  // namespace kiln::envelope_test
