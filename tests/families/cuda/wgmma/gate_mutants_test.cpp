// Gated products on Hopper's tensor cores, without a GPU: mistakes in where factors come from and
// where they meet, planted one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::wgmma_gate_mutants_test {

using test::Base;
using test::Mutant;

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
    {&kRight, "meets the wrong sums", "first + (kSwap ? kTurns : kSums / kHeld)",
     "first + (kSwap ? kTurns : kSums / kHeld) - 1"},
    {&kRight, "adds the first factor's bias to both", "return out.columns + column;",
     "return column;"},
    {&kRight, "has a bias beyond its factor's columns",
     "if (row >= out.rows || column >= out.columns) return;\n  first = ",
     "if (row >= out.rows) return;\n  first = "},
    {&kRight, "forgets alpha of a factor", "factor(out, second, row, second_factor(out, column))",
     "second"},
    {&kLeft, "copies the second unit from the first lines", "line + unit / 2 * kUnit + at",
     "line + at"},
    {&kLeft, "stores where B's lines are", "row_offset /= 2;", ""},
    {&kLeft, "lets both factors through", "fused(gelu_tanh(acc0), acc1", "fused(acc0, acc1"},
    {&kLeft, "forgets the residual", "acc1, x.x0)", "acc1, Real(0))"},
    {&kShared, "copies the same factor in both blocks", "int(share) * kUnits + i", "i"},
    {&kSummed, "sums the first factor twice", "first_quads + kOtherFactor", "first_quads"},
    {&kSummed, "adds up while others still write",
     "  __syncthreads();  // what was added before was read\n", ""},
    {&kSummedLeft, "finds the other factor beside the first", "kSubtiles / 2 * kSums : kSums / 2",
     "kSums / 2 : kSums / 2"},
    {&kSummedLeft, "places a warpgroup's rows at B's lines",
     "(kSwap ? kWarpgroupRows / 2 : kWarpgroupRows)", "kWarpgroupRows"},
    {&kPacked, "packs one factor", "packed_b_at(args), 2 * args.n,", "packed_b_at(args), args.n,"},
};

TEST(WgmmaGateMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(WgmmaGateMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kRight, &kLeft, &kShared, &kSummed, &kSummedLeft, &kAcross, &kPacked});
}

}  // namespace kiln::wgmma_gate_mutants_test
