// A D with scales on Hopper's tensor cores, without a GPU: mistakes in which elements share a
// scale, where it is written and what is divided by it, planted one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "support/mutants.h"

namespace kiln::wgmma_quantise_mutants_test {

using test::Base;
using test::Mutant;

const Base kRows{
    "quantise_rows", "sm_90a",
    "bf16 N T 150 304 200 batch=2 out=fp8_e4m3 epilogue=bias_col scale_d=1x128 align=16",
    CudaWgmma{.left = 128, .right = 128, .stages = 3, .warpgroups = 2}};
const Base kZeros{"quantise_zeros", "sm_90a",
                  "bf16 N T 150 129 40 out=fp8_e4m3 epilogue=relu scale_d=1x128 align=16",
                  CudaWgmma{.left = 128, .right = 128, .stages = 3, .warpgroups = 2}};
// What shared memory held before stands in columns that do not exist.
const Base kClip{"quantise_clip", "sm_90a",
                 "bf16 N T 150 300 200 out=fp8_e4m3 scale_d=1x128 align=16",
                 CudaWgmma{.left = 128, .right = 128, .stages = 3, .warpgroups = 2, .clip = true}};
const Base kClipLeft{
    "quantise_clip_left", "sm_90a", "bf16 N T 150 300 200 out=s8 scale_d=1x128 align=16",
    CudaWgmma{.left = 128, .right = 64, .stages = 3, .warpgroups = 1, .swap = true, .clip = true}};
const Base kWide{"quantise_wide", "sm_90a",
                 "bf16 N T 100 280 200 out=s8 epilogue=bias_col scale_d=1x128 align=16",
                 CudaWgmma{.left = 64, .right = 256, .stages = 3, .warpgroups = 1}};
const Base kBlocks{
    "quantise_blocks", "sm_90a",
    "fp8 N T 150 304 272 out=fp8_e4m3 scale=1x128:128x128 epilogue=bias_col scale_d=1x128 align=16",
    CudaWgmma{.left = 128, .right = 128, .stages = 3, .warpgroups = 2, .promote = true}};
const Base kGate{
    "quantise_gate", "sm_90a",
    "fp8 N T 40 304 272 out=fp8_e4m3 scale=1x128:128x128 gate=silu epilogue=bias_col "
    "scale_d=1x128 align=16",
    CudaWgmma{
        .left = 256, .right = 32, .stages = 3, .warpgroups = 2, .swap = true, .promote = true}};
const Base kSwapped{
    "quantise_swapped", "sm_90a",
    "bf16 N T 40 300 200 batch=2 out=fp8_e4m3 epilogue=bias_col scale_d=1x128 align=16",
    CudaWgmma{.left = 256, .right = 32, .stages = 3, .warpgroups = 2, .swap = true}};
const Base kLine{"quantise_line", "sm_90a",
                 "bf16 N T 70 90 200 out=s8 epilogue=bias_col scale_d=line align=16",
                 CudaWgmma{.left = 64, .right = 96, .stages = 3, .warpgroups = 1}};
const Base kGiven{"quantise_given", "sm_90a",
                  "bf16 N T 150 90 200 batch=2 out=fp8_e4m3 scale_d=tensor align=16",
                  CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};
const Base kSummed{"quantise_summed", "sm_90a",
                   "bf16 N T 60 90 800 out=fp8_e4m3 scale_d=tensor align=16",
                   CudaWgmma{.left = 64,
                             .right = 96,
                             .stages = 3,
                             .warpgroups = 1,
                             .sharing = Sharing::summed,
                             .splits = 3}};
const Base kGroups{"quantise_groups", "sm_90a",
                   "bf16 N T 300 208 104 groups=4 grouped=rows out=fp8_e4m3 scale_d=1x128 align=16",
                   CudaWgmma{.left = 64, .right = 128, .stages = 3, .warpgroups = 1}};
const Base kMasked{
    "quantise_masked", "sm_90a",
    "bf16 N T 150 200 104 groups=4 grouped=masked out=fp8_e4m3 scale_d=1x128 align=16",
    CudaWgmma{.left = 128, .right = 48, .stages = 3, .warpgroups = 2, .swap = true}};
const Base kMaskedGiven{
    "quantise_masked_given", "sm_90a",
    "bf16 N T 150 200 104 groups=4 grouped=masked out=s8 scale_d=tensor align=16",
    CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};

const std::vector<Mutant> kMutants{
    {&kClip, "counts columns that do not exist", "if (right + i * 2 + e < out.columns)",
     "if (true)"},
    {&kRows, "reduces two of four lanes", "apart < 4; apart *= 2", "apart < 2; apart *= 2"},
    {&kRows, "takes one row for both",
     "largest = larger(largest, real_of(sums[s][i + half * 2 + e]));",
     "largest = larger(largest, real_of(sums[s][i + e]));"},
    {&kRows, "takes the sum for its magnitude", "const float magnitude = fabsf(value);",
     "const float magnitude = value;"},
    {&kRows, "multiplies by the scale", "inverse = 1.0f / scale;", "inverse = scale;"},
    {&kRows, "writes the reciprocal", "left + s * 64 + half * 8, right + b * 2, scale);",
     "left + s * 64 + half * 8, right + b * 2, inverse);"},
    {&kRows, "writes scales of rows that do not exist",
     "if (row < out.rows && column < out.columns)", "if (column < out.columns)"},
    {&kRows, "forgets the batch of the scales", "batch * args.m * out.scales_of_row", "0"},
    {&kZeros, "gives zeros the scale 0", "return scale >= 0x1p-126f ? scale : 1.0f;",
     "return scale;"},
    {&kRows, "drops the bias", "x += out.bias[column];", ";"},
    {&kWide, "has one scale for the tile", "b < kSums; b += kOfBlock", "b < kSums; b += kSums"},
    {&kWide, "writes the first block's place", "right + b * 2, scale", "right, scale"},
    {&kWide, "scales to another largest number", "largest / kLargestD", "largest / 448.0f"},
    {&kBlocks, "leaves codes unscaled",
     "sums[s][i + e] = kept(product(real_of(sums[s][i + e]), inverse));", ";"},
    {&kGate, "reduces a warpgroup's columns alone", "warp < kSharers * 4", "warp < 4"},
    {&kGate, "waits for its own warpgroup",
     "named_barrier_sync(kGroupBarrier + first, kSharers * 128);\n    _Pragma",
     "named_barrier_sync(kGroupBarrier + group, 128);\n    _Pragma"},
    {&kGate, "writes before all have read",
     "    // The largest ones may be written again only when every thread has read them.\n    "
     "named_barrier_sync(kGroupBarrier + first, kSharers * 128);",
     ""},
    {&kGate, "reduces half of the lanes", "int apart = 4; apart < 32", "int apart = 4; apart < 16"},
    {&kClipLeft, "counts columns that do not exist", "if (left + s * 64 + half * 8 < out.columns)",
     "if (true)"},
    {&kSwapped, "takes one row's maxima for all", "u32(r / 2 * 8 + r % 2 + lane * 2) * 4",
     "u32(r / 2 * 8 + r % 2) * 4"},
    {&kSwapped, "takes the first 64 columns",
     "s < (b + 1) * kOfBlock; ++s)\n        _Pragma(\"unroll\") for (int half = 0; half < 2; "
     "++half)\n          if",
     "s < b * kOfBlock + 1; ++s)\n        _Pragma(\"unroll\") for (int half = 0; half < 2; "
     "++half)\n          if"},
    {&kLine, "has scales of blocks", "= kSwap ? kLeftTile : kRightTile;  // columns",
     "= 32;  // columns"},
    {&kGiven, "forgets the batch", "(args.scale_d)[batch]", "(args.scale_d)[0]"},
    {&kGiven, "multiplies by the scale",
     "out.inverse_d = 1.0f / static_cast<const float*>(args.scale_d)[batch]",
     "out.inverse_d = static_cast<const float*>(args.scale_d)[batch]"},
    {&kSummed, "leaves the scale out", "x = product(x, out.inverse_d);", ";"},
    {&kRows, "fills the second row's codes from the first", "left = lane / 4 + half * 8, right = g",
     "left = lane / 4, right = g"},
    {&kRows, "stores before the codes are seen", "fence_async_shared();", ";", 1},
    {&kGate, "stores one code twice", "two >> 8", "two"},
    {&kGroups, "stores over the next group's rows", "kRows - (end - row), first_row + end",
     "0, first_row + row + kRows"},
    {&kGroups, "writes at the matrix's first rows", "(first_row - group * rows) * scales_of_row",
     "(-group * rows) * scales_of_row"},
    {&kMasked, "writes at the first group's", "group * (args.m - rows) * scales_of_row",
     "-group * rows * scales_of_row"},
    {&kMaskedGiven, "takes the first group's scale", "(args.scale_d)[batch]", "(args.scale_d)[0]"},
};

TEST(WgmmaQuantiseMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(WgmmaQuantiseMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kRows, &kZeros, &kClip, &kClipLeft, &kWide, &kBlocks, &kGate, &kSwapped,
                      &kLine, &kGiven, &kSummed, &kGroups, &kMasked, &kMaskedGiven});
}

}  // namespace kiln::wgmma_quantise_mutants_test
