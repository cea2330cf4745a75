// Mistakes in what kernels make of a gate that is an expression, planted one at a time: factors
// that are taken for each other or twice, columns of the second one's scales, what of both is kept
// until all is reduced, what a neighbour is shown.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::gated_kernels_mutants_test {

using test::Base;
using test::Mutant;

const Base kSimt{
    "gated_expression_simt", "sm_80",
    "fp32 N N 37 45 20 batch=2 epilogue=d=silu(acc0)*acc1+r[batch,m,n];"
    "q[batch,m]=sum(acc1)",
    CudaSimt{
        .block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4, .stages = 2}};
const Base kKept{
    "gated_expression_kept", "sm_80", "fp32 N N 37 45 20 epilogue=d=exp(acc0-max[m](acc0))*acc1",
    CudaSimt{
        .block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4, .stages = 2}};
const Base kScaled{"gated_expression_scaled", "sm_80",
                   "int8 N T 70 72 64 scale=line out=bf16 epilogue=d=gelu(acc0)*acc1+b[n] align=16",
                   CudaMma{.block_m = 64,
                           .block_n = 64,
                           .block_k = 64,
                           .warps_m = 2,
                           .warps_n = 2,
                           .stages = 2,
                           .instruction_k = 32,
                           .bits_a = 2,
                           .base_a = 4,
                           .shift_a = 1,
                           .bits_b = 2,
                           .base_b = 4,
                           .shift_b = 1}};
const Base kPairs{
    "gated_expression_pairs", "sm_80",
    "bf16 N T 70 72 64 epilogue=d=acc0*b[n]-acc1 gate=expression:interleaved align=16",
    CudaMma{.block_m = 64, .block_n = 64, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 2}};
const Base kWgmma{"gated_expression_wgmma", "sm_90a",
                  "bf16 N T 150 200 96 epilogue=d=pair(even(acc0)-odd(acc1),even(acc1)+odd(acc0));"
                  "q[m]=sum(acc0*acc1);y[m,n]:fp32=acc1 align=16",
                  CudaWgmma{.left = 256, .right = 96, .stages = 3, .warpgroups = 2}};
const Base kSwapped{
    "gated_expression_swapped", "sm_90a",
    "bf16 N T 40 200 96 epilogue=d=silu(acc0)*acc1;g[n]=max(acc0) align=16",
    CudaWgmma{.left = 256, .right = 48, .stages = 3, .warpgroups = 2, .swap = true}};
const Base kSummed{"gated_expression_summed", "sm_90a",
                   "bf16 N T 70 96 512 epilogue=d=pair(even(acc0),odd(acc1))-acc1 align=16",
                   CudaWgmma{.left = 64,
                             .right = 64,
                             .stages = 3,
                             .warpgroups = 1,
                             .sharing = Sharing::summed,
                             .splits = 2}};

const std::vector<Mutant> kMutants{
    {&kSimt, "takes the factors for each other", "gated(out, Real(sum), Real(other), row",
     "gated(out, Real(other), Real(sum), row"},
    {&kSimt, "takes one factor twice", "const Value acc1 = x.other;", "const Value acc1 = v;"},
    {&kSimt, "reads the second factor's sums beside the first one's", "sums[e + kBlockN / 2]",
     "sums[e + 1]"},
    {&kSimt, "forgets what is reduced", "store_beside(out, row, column, x);", ""},
    {&kKept, "keeps the first product twice", "x.y2 = acc1;", "x.y2 = acc0;"},
    {&kKept, "reads one kept value for both", "args.outputs[2]", "args.outputs[1]"},
    {&kScaled, "takes the first factor's scales for both", "return out.columns + column;",
     "return column;"},
    {&kScaled, "forgets the second factor's scales",
     "second = factor(out, second, row, second_factor(out, column));",
     "second = product(second, out.alpha);"},
    {&kScaled, "takes the neighbour's operands", "extras[e + s]", "extras[e + s ^ 1]"},
    {&kPairs, "takes the factors for each other",
     "const Value acc0 = v;\n  const Value acc1 = x.other;",
     "const Value acc0 = x.other;\n  const Value acc1 = v;"},
    {&kWgmma, "takes one factor twice", "first + (kSwap ? kTurns : kSums / kHeld)", "first"},
    {&kWgmma, "takes the neighbouring sums for the other factor's",
     "first + (kSwap ? kTurns : kSums / kHeld)", "first + 1"},
    {&kWgmma, "counts turns of one factor as of both", "* (::kSums / kHeld) +",
     "* (kSums / kHeld) +"},
    {&kWgmma, "gives each element the first one's factor", "extras[e].other = passed[e];",
     "extras[e].other = passed[0];"},
    {&kWgmma, "shows the neighbour the other factor", "x.r0 = acc0;", "x.r0 = acc1;"},
    {&kSwapped, "finds D's rows where B's are", "row_offset /= 2;", ""},
    {&kSwapped, "takes the neighbouring sums for the other factor's",
     "first + (kSwap ? kTurns : kSums / kHeld)", "first + 1"},
    {&kSummed, "adds the first factor's parts twice", "first_quads + kOtherFactor", "first_quads"},
    {&kSummed, "takes one factor twice", "x[i].other = passed;", "x[i].other = v[i];"},
};

TEST(GatedKernelsMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(GatedKernelsMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kSimt, &kKept, &kScaled, &kPairs, &kWgmma, &kSwapped, &kSummed});
}

}  // namespace kiln::gated_kernels_mutants_test
