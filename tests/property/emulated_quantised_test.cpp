// NVIDIA's kernels that write a D with scales, without a GPU: sampled configs of random ragged
// problems for each kind of scales, run lane by lane and checked as the tuner checks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "generator/problem/extent.h"
#include "support/emulated.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::emulated_quantised_test {

struct Kind {
  const char* name;
  const char* family;
  DType operands;
  Scale of_d;
  bool blocks = false;  // operands have scales of blocks
  bool gate = false;
};

std::string name_of(const testing::TestParamInfo<Kind>& info) {
  return fmt::format("{}_{}", info.param.family, info.param.name);
}

std::uint64_t below(std::mt19937_64& random, std::uint64_t limit) { return random() % limit; }

/// Sizes around the edges of blocks of 128 as well as anything; few columns where all of them share
/// a scale.
Gemm problem(std::mt19937_64& random, const Kind& kind) {
  const auto size = [&](std::int64_t most) -> std::int64_t {
    constexpr std::int64_t kEdges[] = {1, 16, 64, 127, 128, 129, 200, 256};
    const std::int64_t any = below(random, 2) == 0
                                 ? kEdges[below(random, std::size(kEdges))]
                                 : 1 + static_cast<std::int64_t>(below(random, 280));
    return std::min(any, most);
  };
  Gemm g = Gemm::row_major(size(300), size(kind.of_d == Scale::line ? 96 : 300), size(300),
                           kind.operands);
  g = g.transpose_b();
  if (kind.blocks) g = g.scaled(Scale::line_128, Scale::square_128);
  if (kind.gate) g = g.with_gate(Gate::silu);
  if (!kind.gate && below(random, 4) == 0) g = g.with_activation(Activation::gelu_tanh);
  if (below(random, 3) == 0) g = g.with_bias(Bias::per_column);
  g = g.quantised(below(random, 3) == 0 ? s8 : fp8_e4m3, kind.of_d);
  switch (below(random, 4)) {
    case 0:
      g = g.batched(2);
      break;
    case 1:
      g = g.grouped(3, below(random, 2) == 0 ? Grouping::rows : Grouping::masked);
      break;
    default:
      break;
  }
  g.alignment = 16;
  for (const auto& [which, matrix] : {std::pair{Operand::a, &g.a}, {Operand::b, &g.b}})
    matrix->ld = (leading_dimension(g, which) + 15) / 16 * 16;
  if (below(random, 2) == 0) g.c.ld = g.d.ld = g.n + static_cast<std::int64_t>(below(random, 20));
  return g;
}

std::vector<Config> configs_of(const Gemm& gemm, const DeviceCaps& device,
                               std::string_view family) {
  std::vector<Config> mine;
  if (const auto space = test::space_of(gemm, device))
    for (const Config& config : space->legal)
      if (family_name(config) == family) mine.push_back(config);
  return mine;
}

class EmulatedQuantised : public testing::TestWithParam<Kind> {};

TEST_P(EmulatedQuantised, SampledConfigsAreRight) {
  const Kind& kind = GetParam();
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 6;  // persistent blocks then take several tiles each
  const int wanted = 4 * test::thorough();
  std::mt19937_64 random(test::seed_of_run() + static_cast<std::uint64_t>(kind.of_d) * 8 +
                         kind.gate);
  int proven = 0;
  for (int tries = 0; proven < wanted && tries < 20 * wanted; ++tries) {
    const Gemm gemm = problem(random, kind);
    ASSERT_TRUE(validate(gemm)) << text(gemm) << ": " << validate(gemm).error().message;
    const auto mine = configs_of(gemm, device, kind.family);
    if (mine.empty()) continue;
    const Config& config = mine[below(random, mine.size())];
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

INSTANTIATE_TEST_SUITE_P(
    Kinds, EmulatedQuantised,
    testing::Values(Kind{"bf16_blocks", "cuda_wgmma", bf16, Scale::line_128},
                    Kind{"bf16_gate", "cuda_wgmma", bf16, Scale::line_128, false, true},
                    Kind{"fp8_blocks", "cuda_wgmma", fp8_e4m3, Scale::line_128, true},
                    Kind{"fp8_gate", "cuda_wgmma", fp8_e4m3, Scale::line_128, true, true},
                    Kind{"int8_lines", "cuda_wgmma", s8, Scale::line},
                    Kind{"bf16_lines", "cuda_wgmma", bf16, Scale::line},
                    Kind{"fp8_tensor", "cuda_wgmma", fp8_e4m3, Scale::tensor, true},
                    Kind{"bf16_tensor", "cuda_mma", bf16, Scale::tensor},
                    Kind{"int8_tensor", "cuda_mma", s8, Scale::tensor}),
    name_of);

// Blocks of 128 columns that two tiles of a cluster share, of every kind of problem.
TEST(EmulatedQuantisedPairs, TilesTellEachOther) {
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 6;
  const CudaWgmma narrow{.left = 128, .right = 64, .stages = 3, .cluster_right = 2};
  const CudaWgmma wide{.left = 64, .right = 192, .stages = 3, .warpgroups = 1, .cluster_right = 2};
  const CudaWgmma gate{.left = 256, .right = 128, .stages = 3, .cluster_right = 2, .promote = true};
  const auto with = [](CudaWgmma c, auto change) {
    change(c);
    return c;
  };
  const auto promoted = [](CudaWgmma& c) { c.promote = true; };
  const auto copied = [](CudaWgmma& c) { c.promote = c.tma_scales = true; };
  const auto in_turns = [](CudaWgmma& c) {
    c.left = 64;
    c.warpgroups = 2;
    c.pingpong = true;
  };
  const std::pair<const char*, CudaWgmma> kAll[] = {
      {"bf16 N T 200 300 104 out=fp8_e4m3 scale_d=1x128 align=16", narrow},
      {"bf16 N T 200 1 104 out=s8 scale_d=1x128 align=16", with(narrow, in_turns)},
      {"bf16 N T 150 776 104 batch=2 out=fp8_e4m3 epilogue=bias_col scale_d=1x128 align=16", wide},
      {"int8 N T 150 400 112 out=s8 scale=line scale_d=1x128 align=16", with(wide, in_turns)},
      {"fp8 N T 200 400 512 out=fp8_e4m3 scale=1x128:128x128 scale_d=1x128 align=16",
       with(wide, copied)},
      {"fp8 N T 200 129 512 groups=3 grouped=rows out=fp8_e4m3 scale=1x128:128x128 scale_d=1x128 "
       "align=16",
       with(narrow, copied)},
      {"fp8 N T 70 400 208 groups=3 grouped=masked out=fp8_e4m3 scale=1x128:128x128 scale_d=1x128 "
       "align=16",
       with(wide, promoted)},
      {"fp8 N T 300 200 272 out=fp8_e4m3 scale=1x128:128x128 gate=silu scale_d=1x128 align=16",
       gate},
      {"fp8 N T 300 64 272 groups=2 grouped=rows out=fp8_e4m3 scale=1x128:128x128 gate=silu "
       "scale_d=1x128 align=16",
       gate},
      {"bf16 N T 100 264 72 out=fp8_e4m3 gate=gelu scale_d=1x128 align=16",
       with(narrow, [](CudaWgmma& c) { c.right = 128; })}};
  std::uint64_t order = 0;
  for (const auto& [line, config] : kAll) {
    const Gemm gemm = parse_gemm(line).value();
    ASSERT_EQ(broken_rule(Problem::of(gemm).value(), device, config), "")
        << line << " | " << text(config);
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << line << ": " << kernel.error().message;
    const Verdict verdict = test::verify_emulated(gemm, *kernel, order++);
    EXPECT_TRUE(verdict) << line << " | " << text(config) << ": "
                         << (verdict ? "" : verdict.error().detail);
  }
}

}  // namespace kiln::emulated_quantised_test
