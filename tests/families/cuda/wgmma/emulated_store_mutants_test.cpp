// Mistakes in the two younger ways out of cuda_wgmma, by pairs from registers and by pieces that
// another launch adds, planted one at a time: each must be caught.
#include <gtest/gtest.h>

#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::emulated_store_mutants_test {

using test::Base;
using test::Mutant;

const Base kSummed{"summed", "sm_90a", "bf16 N T 200 200 712 align=16 batch=2",
                   CudaWgmma{.left = 128,
                             .right = 64,
                             .stages = 3,
                             .warpgroups = 2,
                             .sharing = Sharing::summed,
                             .splits = 9}};
const Base kPaired{"paired", "sm_90a",
                   "bf16 N T 131 133 136 lda=136 ldb=136 ldc=137 ldd=133 align=2",
                   CudaWgmma{.left = 64,
                             .right = 64,
                             .stages = 3,
                             .warpgroups = 1,
                             .pack_a = true,
                             .pack_b = true,
                             .paired = true}};

const std::vector<Mutant> kMutants{
    // Cut k, added by another launch.
    {&kSummed, "adds before the pieces are there", "  wait_for_previous_grid();\n", "\n", 1},
    {&kSummed, "adds the last piece again", "first + p * kAdders < kSplits ? some",
     "first + p * kAdders < kSplits + 1 ? some"},
    {&kSummed, "forgets the pieces of one warp", "for (int other = 1;", "for (int other = 2;"},
    {&kSummed, "adds what is not there yet", "  __syncthreads();\n  if (adder != 0) return;",
     "  if (adder != 0) return;"},
    {&kSummed, "keeps all tiles in one place", "const u32 first_slot = u32(tile) * kSplits;",
     "const u32 first_slot = 0;"},
    {&kSummed, "takes all warpgroups for the first", "region * kWarpgroupRows + s * 64", "s * 64"},
    {&kSummed, "stores a row beyond the last", "if (row >= out.rows || column",
     "if (row > out.rows || column"},
    {&kSummed, "begins a piece a stage late", "work.begin = work.part * stages / kSplits;",
     "work.begin = work.part * stages / kSplits + 1;"},
    // Pairs from registers.
    {&kPaired, "stores pairs as if rows began at words", "& 2) != 0", "& 4) != 0"},
    {&kPaired, "pairs with the lane in front", "lane / 4 * 4 + (place + 1) % 4",
     "lane / 4 * 4 + (place + 3) % 4"},
    {&kPaired, "pairs a lane's last element with its own", "place == 0 && g + 1 < kGroups ?",
     "false ?"},
    {&kPaired, "forgets a row's first element", "if (there && straddles && place == 0 && length",
     "if (false && length"},
    {&kPaired, "stores an element of the next tile", "&& place == 3 && g + 1 == kGroups",
     "&& place == 4"},
    {&kPaired, "stores a pair beyond the last column", "first + 1 < length", "first < length"},
    {&kPaired, "stores a row beyond the last", "const bool there = row < out.rows",
     "const bool there = row <= out.rows"},
};

TEST(StoreMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(StoreMutants, UnchangedKernelsAreClean) { test::expect_clean({&kSummed, &kPaired}); }

}  // namespace kiln::emulated_store_mutants_test
