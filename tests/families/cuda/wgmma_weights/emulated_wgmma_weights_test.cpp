// Weights of four and eight bits by Hopper's warpgroup instruction without a GPU: every pair of
// types, every group, zero points or none, sampled configs of random ragged problems, run lane by
// lane and checked as the tuner checks.
#include <gtest/gtest.h>

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

/// k is whole groups; a group that is a whole column may end anywhere.
Gemm problem(RandomGpuGemm& random, const TypeRow& row, Scale group, Zero zero, bool gate) {
  const int along = scale_block(group).along;
  const auto up_to = [&](std::uint64_t limit) { return 1 + std::int64_t(random.below(limit)); };
  const std::int64_t k = along == 0 ? up_to(700) : along * up_to(700 / std::uint64_t(along));
  const auto m = up_to(random.below(3) == 0 ? 300 : 40), n = up_to(300);
  const DType scale_type = kScaleTypes[random.below(3)];
  Gemm g = Gemm::row_major(m, n, k, row.a)
               .transpose_b()
               .with_weights(row.b, group, group == Scale::mx_32 ? fp32 : scale_type, zero)
               .output(kOutputs[random.below(3)]);
  if (random.below(4) == 0) g = g.batched(2);
  if (random.below(3) == 0) {
    g.epilogue.bias = static_cast<Bias>(random.below(3));
    g.epilogue.activation = static_cast<Activation>(random.below(5));
    g.epilogue.residual = random.below(2) == 0;
  }
  if (gate) g = gated_copy(g, random);
  lay_out(g, random);
  return g;
}

void prove_sampled(bool gate) {
  constexpr std::size_t kTypes = kWeightTypeRows.size(), kPairs = kTypes * std::size(kGroups);
  const Target target{
      .arch = "sm_90a", .family = "cuda_wgmma_weights", .configs = int(kPairs), .largest = 300};
  std::size_t turn = 0;
  test::prove(target, [&](RandomGpuGemm& random) {
    const std::size_t type = turn % kTypes, group = turn / kTypes % std::size(kGroups);
    const Zero zero = (type + group + turn++ / kPairs) % 2 == 0 ? Zero::none : Zero::integer;
    const TypeRow& row = kWeightTypeRows[type];
    const bool other = kGroups[group] == Scale::mx_32 && !is_mx_element(row.b);
    return problem(random, row, other ? Scale::line_32 : kGroups[group],
                   code_format(row.b)->has_zero_points() ? zero : Zero::none, gate);
  });
}

TEST(EmulatedWgmmaWeights, SampledConfigsAreRight) { prove_sampled(false); }

TEST(EmulatedWgmmaWeights, GatedConfigsAreRight) { prove_sampled(true); }

}  // namespace kiln::emulated_wgmma_weights_test
