// Scales of blocks along k that the copy engine brings, without a GPU: whole kernels, and mistakes
// in where scales lie, planted one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::wgmma_tma_scales_mutants_test {

using test::Base;
using test::Mutant;

/// Two boxes of scales for a tile's rows, whose last ones do not exist; tiles of 192 columns, so
/// that one begins within a square; more fours of stages than places.
const Base kWide{"tma_scales_wide", "sm_90a",
                 "fp8 N T 300 400 1536 batch=2 scale=1x128:128x128 align=16",
                 CudaWgmma{.left = 128,
                           .right = 192,
                           .stages = 3,
                           .warpgroups = 2,
                           .promote = true,
                           .tma_scales = true}};
/// Warpgroups with tiles of their own, each of which skips the stages of the other's.
const Base kPingpong{"tma_scales_pingpong", "sm_90a",
                     "fp8 N T 500 256 1000 scale=1x128:128x128 align=16 lda=1008 ldb=1008",
                     CudaWgmma{.left = 64,
                               .right = 64,
                               .stages = 6,
                               .warpgroups = 2,
                               .pingpong = true,
                               .promote = true,
                               .tma_scales = true},
                     1};
const Base kInTurn{"tma_scales_in_turn", "sm_90a",
                   "fp8 N T 300 200 1024 scale=1x128:128x128 align=16",
                   CudaWgmma{.left = 256,
                             .right = 128,
                             .stages = 2,
                             .warpgroups = 2,
                             .cluster_left = 2,
                             .promote = true,
                             .clip = true,
                             .tma_scales = true}};
const Base kRows{"tma_scales_rows", "sm_90a",
                 "fp8 N T 300 192 512 groups=5 grouped=rows scale=1x128:128x128 align=16",
                 CudaWgmma{.left = 64,
                           .right = 64,
                           .stages = 3,
                           .warpgroups = 1,
                           .promote = true,
                           .tma_scales = true}};
const Base kMasked{"tma_scales_masked", "sm_90a",
                   "fp8 N T 150 192 512 groups=3 grouped=masked scale=1x128:128x128 align=16",
                   CudaWgmma{.left = 128,
                             .right = 64,
                             .stages = 3,
                             .warpgroups = 2,
                             .promote = true,
                             .tma_scales = true}};

/// Scales of a stage side by side; the last tile of rows ends within a box.
const Base kOrdered{"tma_scales_ordered", "sm_90a",
                    "fp8 N T 302 400 1536 batch=2 scale=1x128:128x128 scale_order=blocks_4:lines "
                    "align=16",
                    CudaWgmma{.left = 128,
                              .right = 192,
                              .stages = 3,
                              .warpgroups = 2,
                              .promote = true,
                              .tma_scales = true}};
const Base kOrderedTall{"tma_scales_ordered_tall", "sm_90a",
                        "fp8 N T 300 192 512 scale=1x128:128x128 scale_order=blocks:lines align=16",
                        CudaWgmma{.left = 256,
                                  .right = 64,
                                  .stages = 3,
                                  .warpgroups = 2,
                                  .promote = true,
                                  .tma_scales = true}};
const Base kOrderedMasked{
    "tma_scales_ordered_masked", "sm_90a",
    "fp8 N T 150 192 512 groups=3 grouped=masked scale=1x128:128x128 scale_order=blocks_4:lines "
    "align=16",
    CudaWgmma{.left = 128,
              .right = 64,
              .stages = 3,
              .warpgroups = 2,
              .promote = true,
              .tma_scales = true}};

const std::vector<Mutant> kMutants{
    {&kWide, "copies the scales of four stages once", "i % kScaleStages == 0", "i == 0"},
    {&kWide, "reads the first stage's scales in all four", "scales += 4;", "scales += 16;"},
    {&kWide, "writes over scales that are being read",
     "kScalePlaces = (kStages + kScaleStages - 1 + kScaleStages - 1) / kScaleStages",
     "kScalePlaces = 1"},
    {&kWide, "takes the squares of the first columns", "(column + i * kRightShare) / kRightLines",
     "(i * kRightShare) / kRightLines"},
    {&kWide, "takes one square for all columns", "right[r / 4 * 8 / kRightShare]", "right[0]"},
    {&kWide, "takes one row's scale for both", "left[s][r / 2 % 2]", "left[s][0]"},
    {&kWide, "takes the first batch's scales", "work.batch, work.right * kRightTile, work.batch,",
     "0, work.right * kRightTile, work.batch,"},
    {&kPingpong, "does not skip the other's scales",
     "scales = (scales / kScaleBytes + u32(count) / kScaleStages) % kScalePlaces * kScaleBytes;",
     ""},
    {&kInTurn, "takes the first 64 rows' scales for all", "(int(row_offset) + s * 64 + in_64",
     "(int(row_offset) + in_64"},
    {&kRows, "takes scales of other rows", "work.first_row + work.left * kLeftTile, batch_of_a",
     "work.left * kLeftTile, batch_of_a"},
    {&kMasked, "takes the first group's scales of B",
     "work.right * kRightTile,\n                    work.batch, work.begin + i);",
     "work.right * kRightTile,\n                    0, work.begin + i);"},
    {&kOrdered, "reads the first stage's scales in all four",
     "from / 4 % 4 * ((kLeftTile - 1) * 4)", "0"},
    {&kOrdered, "takes stages for rows", "barrier, row, first, batch_of_a",
     "barrier, first, row, batch_of_a"},
    {&kOrdered, "takes one row's scale for both", "left[s][r / 2 % 2]", "left[s][0]"},
    {&kOrderedMasked, "takes the first group's scales of A", "barrier, row, first, batch_of_a",
     "barrier, row, first, 0"},
    {&kOrderedTall, "takes the first 64 rows' scales for all", "(left + (int(row_offset) + s * 64",
     "(left + (int(row_offset)"},
};

TEST(WgmmaTmaScalesMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(WgmmaTmaScalesMutants, UnchangedKernelsAreClean) {
  test::expect_clean(
      {&kWide, &kPingpong, &kInTurn, &kRows, &kMasked, &kOrdered, &kOrderedTall, &kOrderedMasked});
}

}  // namespace kiln::wgmma_tma_scales_mutants_test
