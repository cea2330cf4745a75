// Weights of four and eight bits by Hopper's warpgroup instruction without a GPU: every pair of
// types, every group, zero points or none, sampled configs of random ragged problems, run lane by
// lane and checked as the tuner checks.
#include <gtest/gtest.h>

#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/problem/gemm_types.h"
#include "support/prove.h"

namespace kiln::emulated_wgmma_weights_test {

using test::RandomGpuGemm;
using test::Target;

constexpr Scale kGroups[] = {Scale::line_32, Scale::line_64,    Scale::line_128,
                             Scale::line,    Scale::square_128, Scale::mx_32};
constexpr DType kScaleTypes[] = {fp32, bf16, fp16};
constexpr DType kOutputs[] = {bf16, fp16, fp32};

/// Leading dimensions and strides that are multiples of 16 bytes, some more than tight.
void lay_out(Gemm& g, RandomGpuGemm& random) {
  g.alignment = 16;
  for (const Operand which : kMatrices) {
    Matrix& m = which == Operand::a   ? g.a
                : which == Operand::b ? g.b
                : which == Operand::c ? g.c
                                      : g.d;
    const std::int64_t step = 128 / bits_of(m.dtype);
    const auto up = [&](std::int64_t x) { return (x + step - 1) / step * step; };
    m.ld = up(leading_dimension(g, which) + std::int64_t(random.below(20)));
    if (g.batch > 1) m.batch_stride = up(batch_stride(g, which) + std::int64_t(random.below(40)));
  }
}

/// With a gate of either order of columns.
Gemm gated_copy(const Gemm& g, RandomGpuGemm& random) {
  return g.with_activation(Activation::none)
      .with_gate(static_cast<Gate>(1 + random.below(5)), static_cast<GateOrder>(random.below(2)));
}

enum class With : std::uint8_t { nothing, gate, groups };

/// With groups of rows of one matrix, or masked ones. TMA sees the factors of a gate as batches, so
/// that those of two groups lie as far apart as one group's.
void put_in_groups(Gemm& g, RandomGpuGemm& random) {
  lay_out(g, random);
  if (g.grouping() == Grouping::rows) g.a.batch_stride = g.c.batch_stride = g.d.batch_stride = 0;
  if (!g.epilogue.gate) return;
  g.epilogue.gate->order = GateOrder::stacked;
  g.b.batch_stride = 2 * g.n * g.b.ld;
}

/// k is whole groups; a group that is a whole column may end anywhere.
Gemm problem(RandomGpuGemm& random, const TypeRow& row, Scale group, Zero zero, With with) {
  const int along = scale_block(group).along;
  const auto up_to = [&](std::uint64_t limit) { return 1 + std::int64_t(random.below(limit)); };
  const std::int64_t k = along == 0 ? up_to(700) : along * up_to(700 / std::uint64_t(along));
  const auto m = up_to(random.below(3) == 0 ? 300 : 40), n = up_to(300);
  const DType scale_type = kScaleTypes[random.below(3)];
  Gemm g = Gemm::row_major(m, n, k, row.a)
               .transpose_b()
               .with_weights(row.b, group, group == Scale::mx_32 ? fp32 : scale_type, zero)
               .output(kOutputs[random.below(3)]);
  if (with == With::groups)
    g = g.grouped(1 + std::int64_t(random.below(6)),
                  random.below(2) == 0 ? Grouping::rows : Grouping::masked);
  if (g.grouping() == Grouping::rows && random.below(3) == 0)
    g = g.scattered(1 + std::int64_t(random.below(50)), Scatter::weighted);
  if (with != With::groups && random.below(4) == 0) g = g.batched(2);
  if (random.below(3) == 0) {
    g.epilogue.bias = static_cast<Bias>(random.below(3));
    g.epilogue.activation = static_cast<Activation>(random.below(5));
    g.epilogue.residual = random.below(2) == 0 && scattered_rows(g) == nullptr;
  }
  if (with == With::gate || (with == With::groups && random.below(3) == 0))
    g = gated_copy(g, random);
  if (with == With::groups)
    put_in_groups(g, random);
  else
    lay_out(g, random);
  return g;
}

/// Every type beside every kind of scales, or, where the code of another test is met again, every
/// type beside two of them.
int configs_of(std::size_t kinds, bool again) {
  return int(kWeightTypeRows.size() * (again ? 2 : kinds));
}

void prove_sampled(With with) {
  constexpr std::size_t kTypes = kWeightTypeRows.size(), kPairs = kTypes * std::size(kGroups);
  const Target target{.arch = "sm_90a",
                      .family = "cuda_wgmma_weights",
                      .configs = configs_of(std::size(kGroups), with == With::groups),
                      .largest = 300};
  std::size_t turn = 0;
  test::prove(target, [&](RandomGpuGemm& random) {
    const std::size_t type = turn % kTypes, group = (turn / kTypes + type) % std::size(kGroups);
    const Zero zero = (type + group + turn++ / kPairs) % 2 == 0 ? Zero::none : Zero::integer;
    const TypeRow& row = kWeightTypeRows[type];
    const bool other = kGroups[group] == Scale::mx_32 && !is_mx_element(row.b);
    return problem(random, row, other ? Scale::line_32 : kGroups[group],
                   code_format(row.b)->has_zero_points() ? zero : Zero::none, with);
  });
}

/// Where weights are rounded: groups along k alone, zero points of every kind.
Gemm fast_problem(RandomGpuGemm& random, const TypeRow& row, Scale group, Zero zero, With with) {
  Gemm g = problem(random, row, group, zero, with).with_numerics(Numerics::fast);
  if (row.a == fp16) g.b.q.type = fp16;
  return g;
}

void prove_rounded(With with) {
  constexpr Scale kAlong[] = {Scale::line_32, Scale::line_64, Scale::line_128, Scale::square_128,
                              Scale::mx_32};
  constexpr std::size_t kTypes = kWeightTypeRows.size();
  const Target target{.arch = "sm_90a",
                      .family = "cuda_wgmma_weights",
                      .configs = configs_of(std::size(kAlong), with != With::nothing),
                      .largest = 300};
  std::size_t turn = 0;
  const auto draw = [&](RandomGpuGemm& random) {
    const std::size_t type = turn % kTypes;
    const TypeRow& row = kWeightTypeRows[type];
    const Scale group = kAlong[(turn / kTypes + type) % std::size(kAlong)];
    const auto zero = static_cast<Zero>(turn++ % 3);
    const bool other = group == Scale::mx_32 && (!is_mx_element(row.b) || row.a == fp16);
    return fast_problem(random, row, other ? Scale::line_32 : group,
                        code_format(row.b)->has_zero_points() ? zero : Zero::none, with);
  };
  test::prove(target, draw, [](const Gemm&, const Config& config) {
    return config.as<CudaWgmmaWeights>().round_weights;
  });
}

TEST(EmulatedWgmmaWeights, RoundedConfigsAreRight) { prove_rounded(With::nothing); }

TEST(EmulatedWgmmaWeights, RoundedGatesAreRight) { prove_rounded(With::gate); }

TEST(EmulatedWgmmaWeights, RoundedGroupsAreRight) { prove_rounded(With::groups); }

/// Where nothing may be rounded, verification refuses what rounds.
TEST(EmulatedWgmmaWeights, RoundedWeightsAreNoIeeeOnes) {
  const DeviceCaps device = caps_named("sm_90a").value();
  const Config config = CudaWgmmaWeights{
      .tile_m = 48, .warpgroups = 1, .block_k = 128, .stages = 2, .round_weights = true};
  for (const char* line : {"bf16_int4 N T 48 64 512 group=128 out=fp32 align=16",
                           "fp16_int8 N T 48 64 512 group=64 scale_type=fp16 zero=float out=fp32 "
                           "align=16"}) {
    const Gemm ieee = parse_gemm(line).value(), fast = ieee.with_numerics(Numerics::fast);
    const auto kernel = test::emulated_kernel(fast, device, config);
    ASSERT_TRUE(kernel) << kernel.error().message;
    const Verdict right = test::verify_emulated(fast, *kernel, 0);
    EXPECT_TRUE(right) << line << ": " << right.error().detail;
    EXPECT_FALSE(test::verify_emulated(ieee, *kernel, 0)) << line;
  }
}

TEST(EmulatedWgmmaWeights, SampledConfigsAreRight) { prove_sampled(With::nothing); }

TEST(EmulatedWgmmaWeights, GatedConfigsAreRight) { prove_sampled(With::gate); }

TEST(EmulatedWgmmaWeights, GroupedConfigsAreRight) { prove_sampled(With::groups); }

}  // namespace kiln::emulated_wgmma_weights_test
