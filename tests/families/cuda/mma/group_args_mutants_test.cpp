// Grouped products of kernels that see each group as a product of its own: mistakes in what is a
// group's, planted one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/hip/simt/config.h"
#include "support/mutants.h"

namespace kiln::group_args_mutants_test {

using test::Base;
using test::Mutant;

const Base kMma{"groups_mma", "sm_80",
                "bf16 N T 300 100 72 groups=7 grouped=rows epilogue=bias_row+residual align=8",
                CudaMma{.block_m = 64,
                        .block_n = 64,
                        .block_k = 64,
                        .warps_m = 2,
                        .warps_n = 2,
                        .stages = 2,
                        .instruction_k = 16,
                        .bits_a = 3,
                        .base_a = 4,
                        .shift_a = 0,
                        .bits_b = 3,
                        .base_b = 4,
                        .shift_b = 0}};
const Base kSimt{
    "groups_simt", "sm_80", "fp32 N N 90 70 40 groups=5 grouped=masked epilogue=bias_col",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kHip{"groups_hip", "gfx942",
                "fp32 N N 150 70 40 groups=7 grouped=rows epilogue=bias_col",
                HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 8, .each_m = 2, .each_n = 2}};

const Base kMmaOfK{"groups_mma_of_k", "sm_80",
                   "bf16 N T 100 100 300 groups=5 grouped=k epilogue=bias_row+residual align=8",
                   kMma.config.as<CudaMma>()};
const Base kSimtOfK{"groups_simt_of_k", "sm_80",
                    "fp32 N N 90 70 140 groups=6 grouped=k epilogue=bias_col",
                    kSimt.config.as<CudaSimt>()};

const std::vector<Mutant> kMutants{
    {&kMma, "works on all rows", "own.m = rows;", ""},
    {&kMma, "reads A from its first row", "+ first_row * step_a;", ";"},
    {&kMma, "writes D from its first row", "static_cast<TypeD*>(args.d) + first_row * args.ldd;",
     "static_cast<TypeD*>(args.d);"},
    {&kMma, "works without a tile", "if (!any) return;", ""},
    {&kMma, "adds the bias of other rows", "static_cast<const TypeBias*>(args.bias) + first_row;",
     "static_cast<const TypeBias*>(args.bias);"},
    {&kSimt, "adds the first group's bias",
     "static_cast<const TypeBias*>(args.bias) + group * args.n;",
     "static_cast<const TypeBias*>(args.bias);"},
    {&kSimt, "takes tiles of full groups", "own.m = rows;", ""},
    {&kSimt, "reads the tables before they are there",
     "scheduler.groups.count_tiles(scheduler.rights",
     "if (lane < 0) scheduler.groups.count_tiles(scheduler.rights"},
    {&kMmaOfK, "reads A from its first token", "+ first_k * step_a;", ";"},
    {&kMmaOfK, "reads B from its first token", "+ first_k * step_b;", ";"},
    {&kMmaOfK, "multiplies the tokens of all groups", "own.k = k;", ""},
    {&kMmaOfK, "steps along k by lines", "kAlongKA ? 1 : args.lda", "args.lda"},
    {&kMmaOfK, "adds the first group's bias",
     "static_cast<const TypeBias*>(args.bias) + group * args.m;",
     "static_cast<const TypeBias*>(args.bias);"},
    {&kMmaOfK, "forgets a stage that is not full", "(work.k + kGroupDepth - 1) / kGroupDepth",
     "work.k / kGroupDepth"},
    {&kSimtOfK, "steps along k by elements", "kAlongKB ? 1 : whole.ldb", "1"},
    {&kSimtOfK, "multiplies the tokens of all groups", "own.k = k;", ""},
    {&kSimtOfK, "begins at the first token", "work.first_k = groups.first_k(work.batch);",
     "work.first_k = 0;"},
    {&kSimtOfK, "believes what the list says", "max(0, min(int(args.k), list[i]))", "list[i]"},
    {&kSimtOfK, "reads the list before it is there",
     "scheduler.groups.read(args, thread, kThreads);",
     "if (thread > 0) scheduler.groups.read(args, thread, kThreads);"},
    {&kHip, "goes on without a tile", "if (own.rows == 0) return;", ""},
    {&kHip, "begins each group at the first row", "const i64 first = before;",
     "const i64 first = 0;"},
    {&kHip, "counts blocks from the first group", "block -= tiles;", ""},
    {&kHip, "takes B of the first group", "const i64 block = own.block, batch = own.group;",
     "const i64 block = own.block, batch = 0;"},
};

TEST(GroupArgsMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(GroupArgsMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kMma, &kSimt, &kHip, &kMmaOfK, &kSimtOfK});
}

}  // namespace kiln::group_args_mutants_test
