// Few rows times weights without a GPU: every pair of types, every group, every kind of zero
// points, sampled configs of random ragged problems, run lane by lane and checked as the tuner
// checks.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "generator/problem/gemm_types.h"
#include "support/prove.h"

namespace kiln::emulated_gemv_weights_test {

using test::RandomGpuGemm;
using test::Target;

constexpr Scale kGroups[] = {Scale::line_32, Scale::line_64,    Scale::line_128,
                             Scale::line,    Scale::square_128, Scale::mx_32};
constexpr DType kScaleTypes[] = {fp32, bf16, fp16};
constexpr Zero kZeros[] = {Zero::none, Zero::integer, Zero::floating};
constexpr DType kOutputs[] = {bf16, fp16, fp32};

/// Rows aligned to the 16 bytes that a lane reads, some longer than tight.
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

/// With groups of rows of one matrix, some of which are added, or masked ones.
Gemm grouped_copy(const Gemm& g, RandomGpuGemm& random) {
  const std::int64_t groups = 1 + std::int64_t(random.below(6));
  if (random.below(4) == 0)
    return g.grouped(groups, Grouping::rows)
        .scattered(1 + std::int64_t(random.below(9)), Scatter::weighted);
  return g.grouped(groups, random.below(2) == 0 ? Grouping::rows : Grouping::masked);
}

enum class With : std::uint8_t { nothing, gate, groups };

/// k is whole groups, or whole reads of 16 bytes.
Gemm problem(RandomGpuGemm& random, const TypeRow& row, Scale group, Zero zero, With with) {
  const int along = std::max(scale_block(group).along, 32);
  const auto up_to = [&](std::uint64_t limit) { return 1 + std::int64_t(random.below(limit)); };
  const std::int64_t k = along * up_to(1200 / std::uint64_t(along));
  const DType scale_type = kScaleTypes[random.below(3)];
  Gemm g = Gemm::row_major(up_to(32), up_to(150), k, row.a)
               .transpose_b()
               .with_weights(row.b, group, group == Scale::mx_32 ? fp32 : scale_type, zero)
               .output(kOutputs[random.below(3)]);
  if (with == With::groups)
    g = grouped_copy(g, random);
  else if (random.below(4) == 0)
    g = g.batched(2);
  if (random.below(3) == 0) {
    g.epilogue.bias = static_cast<Bias>(random.below(3));
    g.epilogue.activation = static_cast<Activation>(random.below(5));
    g.epilogue.residual = random.below(2) == 0 && scattered_rows(g) == nullptr;
  }
  if (with == With::gate || (with == With::groups && random.below(3) == 0))
    g = gated_copy(g, random);
  lay_out(g, random);
  if (g.grouping() == Grouping::rows) g.a.batch_stride = g.c.batch_stride = g.d.batch_stride = 0;
  return g;
}

class EmulatedGemvWeights : public testing::TestWithParam<const char*> {};

void prove_sampled(const char* arch, With with) {
  constexpr std::size_t kTypes = kWeightTypeRows.size(), kPairs = kTypes * std::size(kGroups);
  const Target target{
      .arch = arch, .family = "cuda_gemv_weights", .configs = int(kPairs), .largest = 200};
  std::size_t turn = 0;
  test::prove(target, [&](RandomGpuGemm& random) {
    const std::size_t type = turn % kTypes, group = turn / kTypes % std::size(kGroups);
    const Zero zero = kZeros[(type + group + turn++ / kPairs) % std::size(kZeros)];
    const TypeRow& row = kWeightTypeRows[type];
    const bool other = kGroups[group] == Scale::mx_32 && !is_mx_element(row.b);
    return problem(random, row, other ? Scale::line_32 : kGroups[group],
                   code_format(row.b)->has_zero_points() ? zero : Zero::none, with);
  });
}

TEST_P(EmulatedGemvWeights, SampledConfigsAreRight) { prove_sampled(GetParam(), With::nothing); }

TEST_P(EmulatedGemvWeights, GatedConfigsAreRight) { prove_sampled(GetParam(), With::gate); }

TEST_P(EmulatedGemvWeights, GroupedConfigsAreRight) { prove_sampled(GetParam(), With::groups); }

INSTANTIATE_TEST_SUITE_P(Targets, EmulatedGemvWeights, testing::Values("sm_80", "sm_90a"));

}  // namespace kiln::emulated_gemv_weights_test
