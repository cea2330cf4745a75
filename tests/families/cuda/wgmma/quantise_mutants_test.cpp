// A D with scales on Hopper's tensor cores, without a GPU: mistakes in which elements share a
// scale, where it is written and what is divided by it, planted one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/wgmma/config.h"
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

// Two tiles of a cluster share blocks of columns.
const Base kPairs{
    "quantise_pairs", "sm_90a",
    "bf16 N T 150 304 200 batch=2 out=fp8_e4m3 epilogue=bias_col scale_d=1x128 align=16",
    CudaWgmma{.left = 128, .right = 64, .stages = 3, .warpgroups = 2, .cluster_right = 2}};
const Base kPairsWide{
    "quantise_pairs_wide", "sm_90a", "bf16 N T 100 700 104 out=s8 scale_d=1x128 align=16",
    CudaWgmma{.left = 64, .right = 192, .stages = 3, .warpgroups = 1, .cluster_right = 2}};
const Base kPairsGate{
    "quantise_pairs_gate", "sm_90a",
    "fp8 N T 100 304 272 out=fp8_e4m3 scale=1x128:128x128 gate=silu scale_d=1x128 align=16",
    CudaWgmma{.left = 64,
              .right = 128,
              .stages = 3,
              .warpgroups = 2,
              .pingpong = true,
              .cluster_right = 2,
              .promote = true}};

const std::vector<Mutant> kMutants{
    {&kClip, "counts columns that do not exist", "if (i * 2 + e < columns)", "if (true)"},
    {&kRows, "reduces two of four lanes", "y[i] = max(keep, ",
     "y[i] = kHalf == 1 ? keep : max(keep, "},
    {&kRows, "takes one row for both",
     "of_piece = larger(of_piece, real_of(sums[s][i + j % 2 * 2 + e]));",
     "of_piece = larger(of_piece, real_of(sums[s][i + e]));"},
    {&kRows, "takes the sum for its magnitude", "max(largest, fabsf(value))",
     "max(largest, value)"},
    {&kRows, "multiplies by the scale", "mine = 1.0f / scale;", "mine = scale;"},
    {&kRows, "writes the reciprocal", "begin_of(b, second), scale);",
     "begin_of(b, second), mine);"},
    {&kRows, "writes scales of rows that do not exist",
     "if (row < out.rows && column < out.columns)", "if (column < out.columns)"},
    {&kRows, "forgets the batch of the scales", "batch * args.m * out.scales_of_row", "0"},
    {&kZeros, "gives zeros the scale 0", "return scale >= 0x1p-126f ? scale : 1.0f;",
     "return scale;"},
    {&kRows, "drops the bias", "v = acc + x.x0;", "v = acc;"},
    {&kWide, "has one scale for the tile", ": inverse[block_of(piece, false) * kRowsOfLane + row]",
     ": inverse[row]"},
    {&kWide, "writes the first block's place", "first_right + begin_of(b, second)", "first_right"},
    {&kWide, "scales to another largest number", "largest / kLargestD", "largest / 448.0f"},
    {&kBlocks, "leaves codes unscaled",
     "sums[s][i + e] = kept(product(real_of(sums[s][i + e]), x));", ";"},
    {&kGate, "reduces a warpgroup's columns alone", "warp < kSharers * 4", "warp < 4"},
    {&kGate, "waits for its own warpgroup",
     "named_barrier_sync(kGroupBarrier + first, kSharers * 128);\n    // A thread",
     "named_barrier_sync(kGroupBarrier + group, 128);\n    // A thread"},
    {&kGate, "writes before all have read",
     "for those who read these.\n    named_barrier_sync(kGroupBarrier + first, kSharers * 128);",
     ""},
    {&kGate, "reduces half of the lanes", "y[i] = max(keep, ",
     "y[i] = kHalf == 4 ? keep : max(keep, "},
    {&kClipLeft, "counts columns that do not exist", "if (left + s * 64 + half * 8 < out.columns)",
     "if (true)"},
    {&kSwapped, "takes one row's maxima for all", "row_at(eight + lane / 4, lane)",
     "row_at(eight, lane)"},
    {&kSwapped, "divides by another row's scale", "row_at(r, lane)", "row_at(r, 0)"},
    {&kSwapped, "takes the first 64 columns",
     "s < (b + 1) * kOfBlock; ++s)\n          _Pragma(\"unroll\") for (int half = 0; half < 2; "
     "++half)\n            if",
     "s < b * kOfBlock + 1; ++s)\n          _Pragma(\"unroll\") for (int half = 0; half < 2; "
     "++half)\n            if"},
    {&kLine, "has scales of blocks", "= kSwap ? kLeftTile : kRightTile;  // columns",
     "= 32;  // columns"},
    {&kGiven, "forgets the batch", "(args.scale_d)[batch]", "(args.scale_d)[0]"},
    {&kGiven, "multiplies by the scale",
     "out.inverse_d = 1.0f / static_cast<const float*>(args.scale_d)[batch]",
     "out.inverse_d = static_cast<const float*>(args.scale_d)[batch]"},
    {&kSummed, "leaves the scale out", "x = product(x, out.inverse_d);", ";"},
    {&kRows, "fills the second row's codes from the first", "buffer + half * 8 * kPitch", "buffer"},
    {&kPairs, "takes the other tile's alone", "max(largest[four], load_largest(",
     "max(0.0f, load_largest("},
    {&kPairs, "does not wait for the other tile's", "mbarrier_wait(barrier, tile / 2 % 2);", ";"},
    {&kPairs, "tells itself", "other = 1 - u32(work.right) % 2", "other = u32(work.right) % 2"},
    {&kPairs, "has one place for all tiles", "place = u32(warp) * 2 + tile % 2",
     "place = u32(warp) * 2"},
    {&kPairs, "waits for an earlier tile's", "tile / 2 % 2", "(tile + 2) / 2 % 2"},
    {&kPairsGate, "sends half of a warp's rows", "mbarrier_expect(barrier, kMeetingBytes)",
     "mbarrier_expect(barrier, kMeetingBytes / 2)"},
    {&kPairsWide, "takes the first tile's order of blocks", "block_of(piece, second) == b",
     "block_of(piece, false) == b"},
    {&kPairsWide, "divides by the first tile's order", "inverse[block_of(piece, true)",
     "inverse[block_of(piece, false)"},
    {&kPairsWide, "writes the second tile's scale one block on", "second ? block * 128 - 64",
     "second ? block * 128 + 64"},
    {&kPairsWide, "writes the first tile's last scale before it",
     "block * 128 - 128 : kRightTile - 64", "block * 128 - 128 : 0"},
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
                      &kLine, &kGiven, &kSummed, &kGroups, &kMasked, &kMaskedGiven, &kPairs,
                      &kPairsWide, &kPairsGate});
}

}  // namespace kiln::wgmma_quantise_mutants_test
