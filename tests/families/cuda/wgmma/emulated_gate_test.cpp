// Gated products on Hopper's tensor cores, without a GPU: sampled configs of random ragged problems
// run lane by lane, and mistakes in where factors come from and where they meet, planted one at a
// time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "generator/problem/gate.h"
#include "support/emulated.h"
#include "support/gpu_gemm.h"
#include "support/mutants.h"
#include "support/seed.h"

namespace kiln::emulated_gate_test {

using test::Base;
using test::Mutant;

std::vector<CudaWgmma> configs_of(const Gemm& gemm, const DeviceCaps& device) {
  std::vector<CudaWgmma> mine;
  if (const auto space = space_for(gemm, device))
    for (const Config& config : space->legal)
      if (const auto* c = std::get_if<CudaWgmma>(&config)) mine.push_back(*c);
  return mine;
}

/// With a gate whether or not the drawn problem has one, of either order of columns in turn.
Gemm gated_copy(const Gemm& drawn, int number) {
  if (gated(drawn)) return drawn;
  Gemm gemm = drawn.with_activation(Activation::none)
                  .with_gate(Gate::silu, static_cast<GateOrder>(number % 2));
  gemm.c.order = gemm.d.order = Order::row_major;
  gemm.d.ld = gemm.b.ld = gemm.d.batch_stride = gemm.b.batch_stride = 0;
  gemm.alignment = natural_alignment(gemm);
  return gemm;
}

TEST(Gates, SampledConfigsAreRight) {
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 4;  // persistent blocks then take several tiles each
  const std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(fp16, fp16),
                                  *type_row(fp8_e4m3, fp8_e4m3), *type_row(s8, s8)};
  std::mt19937_64 random(test::seed_of_run());
  test::RandomGpuGemm draw(test::seed_of_run(), 300);
  const int wanted = 24 * test::thorough();
  int proven = 0;
  for (int tries = 0; proven < wanted && tries < 50 * wanted; ++tries) {
    const Gemm gemm = gated_copy(draw.next(rows), tries);
    if (!validate(gemm)) continue;
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

const Base kRight{"gate_right", "sm_90a",
                  "bf16 N T 150 200 200 gate=silu epilogue=bias_col align=16",
                  CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};
const Base kLeft{"gate_left", "sm_90a",
                 "bf16 N T 40 200 200 gate=gelu:interleaved epilogue=bias_row+residual align=16",
                 CudaWgmma{.left = 256, .right = 48, .stages = 3, .warpgroups = 2, .swap = true}};
const Base kShared{
    "gate_shared", "sm_90a", "bf16 N T 300 200 200 gate=sigmoid align=16",
    CudaWgmma{.left = 128, .right = 64, .stages = 3, .warpgroups = 2, .cluster_left = 2}};
const Base kSummed{"gate_summed", "sm_90a", "bf16 N T 40 200 800 gate=relu align=16",
                   CudaWgmma{.left = 128,
                             .right = 64,
                             .stages = 3,
                             .warpgroups = 2,
                             .sharing = Sharing::summed,
                             .splits = 3}};
const Base kSummedLeft{"gate_summed_left", "sm_90a", "bf16 N T 40 200 800 gate=relu align=16",
                       CudaWgmma{.left = 256,
                                 .right = 64,
                                 .stages = 3,
                                 .warpgroups = 2,
                                 .swap = true,
                                 .sharing = Sharing::summed,
                                 .splits = 3}};
const Base kAcross{"gate_across", "sm_90a", "bf16 N N 150 200 200 gate=silu align=16",
                   CudaWgmma{.left = 128, .right = 128, .stages = 3, .warpgroups = 2}};
const Base kPacked{
    "gate_packed", "sm_90a", "bf16 N T 150 200 203 gate=silu",
    CudaWgmma{
        .left = 128, .right = 128, .stages = 3, .warpgroups = 2, .pack_a = true, .pack_b = true}};

const std::vector<Mutant> kMutants{
    {&kRight, "copies one factor twice", "factor = batch * 2 + unit % 2;", "factor = batch * 2;"},
    {&kRight, "takes the factors for each other", "factor = batch * 2 + unit % 2;",
     "factor = batch * 2 + 1 - unit % 2;"},
    {&kRight, "counts half of B's lines", "(kSwap ? args.m : 2 * args.n)",
     "(kSwap ? args.m : args.n)"},
    {&kRight, "begins a tile at B's line", "work.right * (kRightTile / 2), k,",
     "work.right * kRightTile, k,"},
    {&kRight, "meets the wrong sums", "sums[s][i + of_d::kSums + e]",
     "sums[s][i + of_d::kSums - e]"},
    {&kRight, "adds the first factor's bias to both", "return out.columns + column;",
     "return column;"},
    {&kRight, "has a bias beyond its factor's columns",
     "if (row >= out.rows || column >= out.columns) return Real(0);",
     "if (row >= out.rows) return Real(0);"},
    {&kRight, "forgets alpha of a factor", "factor(out, second, row, second_factor(out, column))",
     "second"},
    {&kLeft, "copies the second unit from the first lines", "line + unit / 2 * kUnit + at",
     "line + at"},
    {&kLeft, "stores where B's lines are", "kSwap ? row_offset / 2 : row_offset", "row_offset"},
    {&kLeft, "lets both factors through", "product(activate(factor(out, first",
     "product((factor(out, first"},
    {&kLeft, "forgets the residual", "real_of(sums[i + e]) + residual[e]", "real_of(sums[i + e])"},
    {&kShared, "copies the same factor in both blocks", "int(share) * kUnits + i", "i"},
    {&kSummed, "sums the first factor twice", "first_quads + kOtherFactor", "first_quads"},
    {&kSummed, "adds up while others still write",
     "  __syncthreads();  // what was added before was read\n", ""},
    {&kSummedLeft, "finds the other factor beside the first", "kSubtiles / 2 * kSums : kSums / 2",
     "kSums / 2 : kSums / 2"},
    {&kSummedLeft, "places a warpgroup's rows at B's lines",
     "(kSwap ? kWarpgroupRows / 2 : kWarpgroupRows)", "kWarpgroupRows"},
    {&kPacked, "packs one factor", "packed_b_at(args), 2 * args.n, args.ldb",
     "packed_b_at(args), args.n, args.ldb"},
};

TEST(GateMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(GateMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kRight, &kLeft, &kShared, &kSummed, &kSummedLeft, &kAcross, &kPacked});
}

}  // namespace kiln::emulated_gate_test
