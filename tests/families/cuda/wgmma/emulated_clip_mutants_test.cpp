// Copies that end with the operand (clip=1): mistakes in what is copied and in what a barrier waits
// for, planted one at a time, must be caught.
#include <gtest/gtest.h>

#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::emulated_clip_mutants_test {

using test::Base;
using test::Mutant;

const Base kPlain{"clip", "sm_90a", "bf16 N T 200 304 456 lda=464 ldb=464 ldc=312 ldd=304 align=16",
                  CudaWgmma{.left = 128, .right = 192, .stages = 3, .warpgroups = 2, .clip = true}};
// The second half of the last tile's rows, which the other block copies, does not exist at all.
const Base kShared{
    "clip_shared", "sm_90a", "bf16 N T 400 282 456 lda=464 ldb=464 ldc=288 ldd=288 align=16",
    CudaWgmma{
        .left = 128, .right = 64, .stages = 3, .warpgroups = 2, .cluster_left = 2, .clip = true}};

const std::vector<Mutant> kMutants{
    {&kPlain, "waits for rows that are not copied",
     "const u32 bytes = (left_rows + right_rows) * 128;", "const u32 bytes = kStageBytes;"},
    {&kPlain, "waits for less than is copied", "const u32 bytes = (left_rows + right_rows) * 128;",
     "const u32 bytes = (left_rows + right_rows) * 128 - 128;"},
    {&kPlain, "copies every tile by the last one's box", "if (mine < kShare) map = last;",
     "map = last;"},
    {&kPlain, "copies the last tile by the other operand's box", "maps.last_left = &map_last_left;",
     "maps.last_left = &map_last_right;"},
    {&kShared, "copies a share of which no row exists", "if (mine <= 0) return;\n", "\n"},
    {&kShared, "takes the whole tile's rows for a share's",
     "const int mine = rows - int(share) * kShare;", "const int mine = rows;"},
};

TEST(ClipMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(ClipMutants, UnchangedKernelsAreClean) { test::expect_clean({&kPlain, &kShared}); }

}  // namespace kiln::emulated_clip_mutants_test
