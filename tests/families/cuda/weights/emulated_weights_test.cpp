// Weights of four and eight bits on NVIDIA's GPUs without a GPU: every pair of types, every group,
// every kind of zero points, sampled configs of random ragged problems, run lane by lane and
// checked as the tuner checks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "generator/families/cuda/gemv_weights/config.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/operand.h"
#include "support/prove.h"
#include "tuner/verify/data.h"

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

/// With a gate of either order of columns.
Gemm gated_copy(const Gemm& g, RandomGpuGemm& random) {
  return g.with_activation(Activation::none)
      .with_gate(static_cast<Gate>(1 + random.below(5)), static_cast<GateOrder>(random.below(2)));
}

/// With groups of rows of one matrix, some of which are by index or added, or masked ones.
Gemm grouped_copy(const Gemm& g, RandomGpuGemm& random) {
  const std::int64_t groups = 1 + std::int64_t(random.below(6));
  const auto rows = [&] { return std::int64_t(random.below(200)); };
  if (random.below(4) == 0) return g.grouped(groups, Grouping::rows).gathered(rows());
  if (random.below(4) == 0)
    return g.grouped(groups, Grouping::rows).gathered(rows()).scattered(rows());
  if (random.below(4) == 0)
    return g.grouped(groups, Grouping::rows)
        .scattered(rows(), random.below(2) == 0 ? Scatter::add : Scatter::weighted);
  return g.grouped(groups, random.below(2) == 0 ? Grouping::rows : Grouping::masked);
}

enum class With : std::uint8_t { nothing, gate, groups };

/// k is whole groups; a group that is a whole column may end anywhere.
Gemm problem(RandomGpuGemm& random, const TypeRow& row, Scale group, Zero zero, With with) {
  const int along = scale_block(group).along;
  const auto up_to = [&](std::uint64_t limit) { return 1 + std::int64_t(random.below(limit)); };
  const std::int64_t k = along == 0 ? up_to(700) : along * up_to(700 / std::uint64_t(along));
  const auto m = up_to(random.below(3) == 0 ? 150 : 24), n = up_to(200);
  const DType scale_type = kScaleTypes[random.below(3)];
  Gemm g = Gemm::row_major(m, n, k, row.a)
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
  lay_out(g, random, 2 << random.below(4));
  if (g.grouping() == Grouping::rows) g.a.batch_stride = g.c.batch_stride = g.d.batch_stride = 0;
  return g;
}

class EmulatedWeights : public testing::TestWithParam<const char*> {};

void prove_sampled(const char* arch, With with) {
  constexpr std::size_t kTypes = kWeightTypeRows.size(), kPairs = kTypes * std::size(kGroups);
  const Target target{
      .arch = arch, .family = "cuda_weights", .configs = int(kPairs), .largest = 200};
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

TEST_P(EmulatedWeights, SampledConfigsAreRight) { prove_sampled(GetParam(), With::nothing); }

TEST_P(EmulatedWeights, GatedConfigsAreRight) { prove_sampled(GetParam(), With::gate); }

TEST_P(EmulatedWeights, GroupedConfigsAreRight) { prove_sampled(GetParam(), With::groups); }

/// What a call writes where rows of A that are of no group hold `beyond`, as bits of bf16.
std::vector<std::byte> written(const Gemm& gemm, const test::Emulated& kernel,
                               const std::vector<std::int32_t>& rows, std::uint16_t beyond) {
  std::vector<std::byte> memory[kOperandCount];
  Operands operands;
  for_each_operand([&](auto which) {
    auto& bytes = memory[index_of(which)];
    bytes.resize(static_cast<std::size_t>(span_bytes(gemm, which)));
    if constexpr (which == Operand::d) {
      std::ranges::fill(bytes, std::byte{0x5a});
      operands.d = bytes.data();
    } else {
      fill(gemm, which, Data::uniform, 9, bytes.data());
      pointer<which>(operands) = present(gemm, which) ? bytes.data() : nullptr;
    }
  });
  operands.groups = rows.data();
  auto* const a = reinterpret_cast<std::uint16_t*>(memory[index_of(Operand::a)].data());
  for (std::int64_t group = 0; group < gemm.batch; ++group)
    for (std::int64_t row = rows[std::size_t(group)]; row < gemm.m; ++row)
      std::fill_n(a + group * gemm.stride_a() + row * gemm.lda(), gemm.k, beyond);
  const Status ran = kernel.call(Problem::of(gemm).value(), operands, 3);
  EXPECT_TRUE(ran) << ran.error().message;
  return memory[index_of(Operand::d)];
}

TEST(EmulatedWeights, RowsOfNoGroupMayHoldNans) {
  const Gemm gemm = parse_gemm(
                        "bf16_uint4 N T 21 37 256 groups=3 grouped=masked group=64 zero=float "
                        "gate=silu align=16")
                        .value();
  const std::vector<std::int32_t> rows{5, 0, 17};
  const DeviceCaps device = caps_named("sm_90a").value();
  for (const Config& config :
       {Config(CudaWeights{.tile_n = 64, .tile_m = 16, .warps = 2, .stages = 3}),
        Config(CudaGemvWeights{.tile_n = 32, .tile_m = 8, .warps = 2, .ahead = 2})}) {
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << kernel.error().message;
    const auto with_nans = written(gemm, *kernel, rows, 0x7fc0);
    EXPECT_EQ(with_nans, written(gemm, *kernel, rows, 0)) << text(config);
    const auto* d = reinterpret_cast<const std::uint16_t*>(with_nans.data());
    for (std::int64_t group = 0; group < gemm.batch; ++group)
      for (std::int64_t row = 0; row < gemm.m; ++row)
        for (std::int64_t column = 0; column < gemm.n; ++column) {
          const std::uint16_t bits = d[group * gemm.stride_d() + row * gemm.ldd() + column];
          if (row >= rows[std::size_t(group)]) {
            ASSERT_EQ(bits, 0x5a5a) << "a row that does not count was written";
          } else {
            ASSERT_NE(bits & 0x7f80, 0x7f80) << text(config) << row << ' ' << column;
          }
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EmulatedWeights, testing::Values("sm_80", "sm_90a"));

}  // namespace kiln::emulated_weights_test
