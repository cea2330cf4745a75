// fp32 multiplied in parts of half precision (halves=1), without a GPU: sampled configs of random
// ragged problems run lane by lane, and mistakes in the splitting, the products and the powers of
// two, planted one at a time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "support/emulated.h"
#include "support/gpu_gemm.h"
#include "support/mutants.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::emulated_halves_test {

using test::Base;
using test::Mutant;

std::vector<CudaWgmma> configs_of(const Gemm& gemm, const DeviceCaps& device) {
  std::vector<CudaWgmma> mine;
  if (const auto space = test::space_of(gemm, device))
    for (const Config& config : space->legal)
      if (const auto c = config.if_is<CudaWgmma>(); c && c->halves) mine.push_back(*c);
  return mine;
}

TEST(Halves, SampledConfigsAreRight) {
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 4;  // persistent blocks then take several tiles each
  const std::vector<TypeRow> rows{*type_row(fp32, fp32)};
  std::mt19937_64 random(test::seed_of_run());
  test::RandomGpuGemm draw(test::seed_of_run(), 150);
  const int wanted = 12 * test::thorough();
  int proven = 0;
  for (int tries = 0; proven < wanted && tries < 20 * wanted; ++tries) {
    const Gemm gemm = draw.next(rows).with_numerics(Numerics::tensor);
    const auto mine = configs_of(gemm, device);
    if (mine.empty()) continue;
    const Config config = mine[random() % mine.size()];
    const std::string what =
        fmt::format("KILN_SEED={}: {} | {}", test::seed_of_run(), text(gemm), text(config));
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const Verdict verdict = test::verify_emulated(
        gemm, *kernel, proven % 3 == 0 ? 0 : static_cast<std::uint64_t>(proven) + 7);
    EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
    ++proven;
  }
  EXPECT_EQ(proven, wanted);
}

TEST(Halves, OnlyWhereTheProblemAllowsThem) {
  const DeviceCaps device = caps_named("sm_90a").value();
  const auto problem = [](const char* line) { return parse_gemm(line).value(); };
  EXPECT_TRUE(configs_of(problem("fp32 N T 256 256 256"), device).empty());
  EXPECT_FALSE(configs_of(problem("fp32 N T 256 256 256 numerics=tensor"), device).empty());
  const CudaWgmma halves{.pack_a = true, .pack_b = true, .promote = true, .halves = true};
  EXPECT_EQ(broken_rule(Problem::of(problem("fp32 N T 256 256 256")).value(), device, halves),
            "halves=1 needs numerics=tensor and pack_a=1, pack_b=1, promote=1, clip=0");
}

const Base kAlong{"halves", "sm_90a", "fp32 N T 150 140 456 numerics=tensor",
                  CudaWgmma{.left = 128,
                            .right = 64,
                            .stages = 2,
                            .warpgroups = 2,
                            .pack_a = true,
                            .pack_b = true,
                            .promote = true,
                            .halves = true}};
// So few products that lines differ in their largest magnitude, which the powers of two follow.
const Base kAcross{"halves_across", "sm_90a", "fp32 T N 150 140 3 batch=2 numerics=tensor",
                   kAlong.config};

const Base kTiles{"halves_tiles", "sm_90a", "fp32 T N 150 140 200 numerics=tensor", kAlong.config};

const std::vector<Mutant> kMutants{
    {&kAlong, "forgets a product of high and low parts",
     "multiply_steps<0, 4>(cross, left, right + (kRightBytes >> 4), 1);", ""},
    {&kAlong, "takes a high part for a low one",
     "multiply_steps<0, 4>(cross, left + (kLeftBytes >> 4), right, i);",
     "multiply_steps<0, 4>(cross, left, right, i);"},
    {&kAlong, "takes low parts for units", "cross[s][r] * kLowUnit", "cross[s][r]"},
    {&kAlong, "adds a stage's sums to those before it",
     "multiply_steps<0, 4>(part, left, right, 0);", "multiply_steps<0, 4>(part, left, right, i);"},
    {&kAlong, "drops the small products of the stages before",
     "multiply_steps<0, 4>(cross, left + (kLeftBytes >> 4), right, i);",
     "multiply_steps<0, 4>(cross, left + (kLeftBytes >> 4), right, 0);"},
    {&kAlong, "reads sums that are still being added",
     "wgmma_commit();\n    wgmma_wait<1>();\n    pin_all(part);",
     "wgmma_commit();\n    pin_all(part);"},
    {&kAlong, "loses the second of two neighbours", "from[k + 1] * scale", "from[k] * scale"},
    {&kAlong, "copies both parts from one place", "const int batch = work.batch * 2 + part;",
     "const int batch = work.batch * 2;"},
    {&kAcross, "forgets the power of two of a row",
     "-(out.exponents_a[row] + out.exponents_b[column])", "-out.exponents_b[column]"},
    {&kAcross, "takes the first batch's powers of two for all", "+ batch * args.n;", ";"},
    {&kAcross, "has the largest magnitude of half the lines",
     "    most = max(most, __shfl_xor_sync(0xffffffff, most, 16));\n", ""},
    {&kTiles, "writes the tile before all have read it",
     "      __syncthreads();\n      _Pragma(\"unroll\") for (int i = 0; i < kDeep / kLines; ++i)\n"
     "        tile",
     "      _Pragma(\"unroll\") for (int i = 0; i < kDeep / kLines; ++i)\n        tile"},
};

TEST(HalvesMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(HalvesMutants, UnchangedKernelsAreClean) { test::expect_clean({&kAlong, &kAcross, &kTiles}); }

}  // namespace kiln::emulated_halves_test
