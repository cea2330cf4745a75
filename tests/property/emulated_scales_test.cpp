// NVIDIA's kernels on fp8 operands with scales, without a GPU: sampled configs of random ragged
// problems for each kind of scales, run lane by lane and checked as the tuner checks; and the same
// sources through the real compiler.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/problem/extent.h"
#include "support/emulated.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::emulated_scales_test {

struct Kind {
  const char* name;
  const char* family;
  Scale a, b;
  ScaleOrder order = ScaleOrder::lines;  // of those of lines
};

std::string name_of(const testing::TestParamInfo<Kind>& info) {
  return fmt::format("{}_{}", info.param.family, info.param.name);
}

std::uint64_t below(std::mt19937_64& random, std::uint64_t limit) { return random() % limit; }

/// Sizes around the edges of blocks of 128 as well as anything.
Gemm problem(std::mt19937_64& random, const Kind& kind) {
  const auto size = [&]() -> std::int64_t {
    constexpr std::int64_t kEdges[] = {1, 16, 64, 127, 128, 129, 200, 256};
    if (below(random, 2) == 0) return kEdges[below(random, std::size(kEdges))];
    return 1 + static_cast<std::int64_t>(below(random, 280));
  };
  Gemm g = Gemm::row_major(size(), size(), size(), fp8_e4m3).scaled(kind.a, kind.b);
  if (below(random, 3) == 0) g.b.dtype = fp8_e5m2;
  if (below(random, 4) != 0) g = g.transpose_b();
  if (below(random, 4) == 0) g = g.transpose_a();
  if (below(random, 3) == 0) g.c.order = g.d.order = Order::column_major;
  constexpr DType kOutputs[] = {bf16, fp16, fp32};
  g = g.output(kOutputs[below(random, 3)]).batched(1 + static_cast<std::int64_t>(below(random, 2)));
  if (below(random, 3) == 0) g.epilogue.bias = Bias::per_column;
  // Blocks of two factors' columns begin where either's do, in every order.
  if (blocks_along_k(kind.a) && below(random, 3) == 0) {
    g.epilogue = {.gate = Gated{Gate::silu, static_cast<GateOrder>(below(random, 2))}};
    g.c.order = g.d.order = Order::row_major;
  }
  const auto order = [&](Scale s) { return s == Scale::line_128 ? kind.order : ScaleOrder::lines; };
  g = g.with_scale_order(order(kind.a), order(kind.b));
  if (below(random, 2) == 0) {
    g.alignment = 16;
    for (Matrix* m : g.matrices()) {
      const Operand which = m == &g.a   ? Operand::a
                            : m == &g.b ? Operand::b
                            : m == &g.c ? Operand::c
                                        : Operand::d;
      m->ld = (leading_dimension(g, which) + 15) / 16 * 16;
    }
  }
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

class EmulatedScales : public testing::TestWithParam<Kind> {};

TEST_P(EmulatedScales, SampledConfigsAreRight) {
  const Kind& kind = GetParam();
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 6;  // persistent blocks then take several tiles each
  const int wanted = 3 * test::thorough();
  std::mt19937_64 random(test::seed_of_run() + static_cast<std::uint64_t>(kind.a) * 8 +
                         static_cast<std::uint64_t>(kind.b) +
                         static_cast<std::uint64_t>(kind.order) * 64);
  int proven = 0;
  for (int tries = 0; proven < wanted && tries < 20 * wanted; ++tries) {
    const Gemm gemm = problem(random, kind);
    ASSERT_TRUE(validate(gemm)) << validate(gemm).error().message;
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
    Kinds, EmulatedScales,
    testing::Values(Kind{"lines", "cuda_wgmma", Scale::line, Scale::line},
                    Kind{"rows_alone", "cuda_wgmma", Scale::line, Scale::none},
                    Kind{"blocks", "cuda_wgmma", Scale::line_128, Scale::square_128},
                    Kind{"blocks_swapped", "cuda_wgmma", Scale::square_128, Scale::line_128},
                    Kind{"strips", "cuda_wgmma", Scale::line_128, Scale::line_128},
                    Kind{"blocks_ordered", "cuda_wgmma", Scale::line_128, Scale::square_128,
                         ScaleOrder::blocks_4},
                    Kind{"blocks_swapped_ordered", "cuda_wgmma", Scale::square_128, Scale::line_128,
                         ScaleOrder::blocks},
                    Kind{"strips_ordered", "cuda_wgmma", Scale::line_128, Scale::line_128,
                         ScaleOrder::blocks_4},
                    Kind{"squares", "cuda_wgmma", Scale::square_128, Scale::square_128},
                    Kind{"lines", "cuda_simt", Scale::line, Scale::line},
                    Kind{"columns_alone", "cuda_gemv", Scale::none, Scale::line}),
    name_of);

TEST(FamilyScales, KernelsWithoutThemAreRefusedByName) {
  const DeviceCaps device = caps_named("sm_80").value();
  const auto space = space_for(
      Problem::of(parse_gemm("fp8 N T 64 64 256 scale=1x128:128x128").value()).value(), device);
  EXPECT_FALSE(space);
  const Problem problem =
      Problem::of(parse_gemm("fp8 N T 64 64 256 scale=1x128:128x128").value()).value();
  EXPECT_EQ(broken_rule(problem, device, CudaSimt{}), "the family applies the operands' scales");
  EXPECT_EQ(broken_rule(problem, caps_named("gfx950").value(), HipMfma{}),
            "the family applies the operands' scales");
  const Problem ordered =
      Problem::of(parse_gemm("fp8 N T 64 64 256 scale=1x128 scale_order=blocks").value()).value();
  EXPECT_EQ(broken_rule(ordered, caps_named("gfx950").value(), HipSimt{}),
            "the family reads scales that lie block by block");
  const Problem blocks = Problem::of(parse_gemm("fp4 N T 64 64 256 scale=mx32").value()).value();
  EXPECT_EQ(broken_rule(blocks, caps_named("sm_90a").value(), CudaWgmma{}),
            "the family applies the operands' scales");
}

}  // namespace kiln::emulated_scales_test
