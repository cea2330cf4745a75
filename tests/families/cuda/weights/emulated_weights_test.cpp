// Weights of four and eight bits on NVIDIA's GPUs without a GPU: every pair of types, every group,
// every kind of zero points, sampled configs of random ragged problems, run lane by lane and
// checked as the tuner checks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generator/problem/gemm_types.h"
#include "support/prove.h"

namespace kiln::emulated_weights_test {

using test::RandomGpuGemm;
using test::Target;

constexpr Scale kGroups[] = {Scale::line_32, Scale::line_64,    Scale::line_128,
                             Scale::line,    Scale::square_128, Scale::mx_32};
constexpr DType kScaleTypes[] = {fp32, bf16, fp16};
constexpr Zero kZeros[] = {Zero::none, Zero::integer, Zero::floating};
constexpr DType kOutputs[] = {bf16, fp16, fp32};

/// Leading dimensions and strides that are multiples of `bytes`, some more than tight.
void lay_out(Gemm& g, RandomGpuGemm& random, int bytes) {
  g.alignment = bytes;
  for (const Operand which : kMatrices) {
    Matrix& m = which == Operand::a   ? g.a
                : which == Operand::b ? g.b
                : which == Operand::c ? g.c
                                      : g.d;
    const std::int64_t step = std::max(1, bytes * 8 / bits_of(m.dtype));
    const auto up = [&](std::int64_t x) { return (x + step - 1) / step * step; };
    m.ld = up(leading_dimension(g, which) + std::int64_t(random.below(20)));
    if (g.batch > 1) m.batch_stride = up(batch_stride(g, which) + std::int64_t(random.below(40)));
  }
}

/// k is whole groups; a group that is a whole column may end anywhere.
Gemm problem(RandomGpuGemm& random, const TypeRow& row, Scale group, Zero zero) {
  const int along = scale_block(group).along;
  const auto up_to = [&](std::uint64_t limit) { return 1 + std::int64_t(random.below(limit)); };
  const std::int64_t k = along == 0 ? up_to(700) : along * up_to(700 / std::uint64_t(along));
  const auto m = up_to(random.below(3) == 0 ? 150 : 24), n = up_to(200);
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
  lay_out(g, random, 2 << random.below(4));
  return g;
}

class EmulatedWeights : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedWeights, SampledConfigsAreRight) {
  constexpr std::size_t kTypes = kWeightTypeRows.size(), kPairs = kTypes * std::size(kGroups);
  const Target target{
      .arch = GetParam(), .family = "cuda_weights", .configs = int(kPairs), .largest = 200};
  std::size_t turn = 0;
  test::prove(target, [&](RandomGpuGemm& random) {
    const std::size_t type = turn % kTypes, group = turn / kTypes % std::size(kGroups);
    const Zero zero = kZeros[(type + group + turn++ / kPairs) % std::size(kZeros)];
    const TypeRow& row = kWeightTypeRows[type];
    const bool other = kGroups[group] == Scale::mx_32 && !is_mx_element(row.b);
    return problem(random, row, other ? Scale::line_32 : kGroups[group],
                   code_format(row.b)->has_zero_points() ? zero : Zero::none);
  });
}

INSTANTIATE_TEST_SUITE_P(Targets, EmulatedWeights, testing::Values("sm_80", "sm_90a"));

}  // namespace kiln::emulated_weights_test
