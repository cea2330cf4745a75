// Rows of the product added to rows of D: mistakes in the lists of rows and in the sums, planted
// one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::added_rows_mutants_test {

using test::Base;
using test::Mutant;

const Base kMma{"added_rows_mma", "sm_80",
                "bf16 N T 300 100 72 groups=7 ldc=108 ldd=104 grouped=rows rows_of_d=90 "
                "epilogue=bias_row align=8 "
                "scatter=weighted",
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
    "added_rows_simt", "sm_80",
    "fp32 N N 290 70 40 groups=5 grouped=rows rows_of_a=60 rows_of_d=33 gather=rows scatter=add",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kWgmma{"added_rows_wgmma", "sm_90a",
                  "bf16 N T 300 1104 104 groups=5 grouped=rows rows_of_d=40 align=16 "
                  "epilogue=silu scatter=weighted",
                  CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};

const std::vector<Mutant> kMutants{
    {&kMma, "believes what the list says", "min(last, index[from])", "index[from]"},
    {&kMma, "counts a negative number as the first row", "min(last, index[from])",
     "max(0, min(last, index[from]))"},
    {&kMma, "adds rows that are of no group", "from < rows ? min", "from < args.m ? min"},
    {&kMma, "forgets the last rows of the groups", "(ceil_div(rows, 32 * kLoads) - 1)",
     "(rows / (32 * kLoads) - 1)"},
    {&kMma, "forgets all rows but the last of each row of D",
     "lists.next[from] = lists.first[row];", "lists.next[from] = -1;"},
    {&kMma, "forgets rows of D that none names", "lists.first[row] = -1;",
     "if (row != begin) lists.first[row] = -1;"},
    {&kMma, "takes the weight of D's row", "args.row_weights)[i]", "args.row_weights)[row]"},
    {&kMma, "leaves rows of D that none names without C", "Real sum[kColumns] = {};",
     "Real sum[kColumns] = {}; if (args.sums_beta != 0 && lists.first[row] < 0) continue;"},
    {&kMma, "takes the product's row for D's", "row * args.ld_sums_c", "row * args.ldd"},
    {&kSimt, "begins in the middle of the list", "at >= 0; at -= 32 * kLoads",
     "at > 0; at -= 32 * kLoads"},
    {&kSimt, "takes columns of another thread", "rows + i * args.ldd;", "rows + i * args.ldd + 1;"},
    {&kSimt, "lists lie over the product", "static_cast<u8*>(args.d) - bytes",
     "static_cast<u8*>(args.d) - bytes + 512"},
    {&kWgmma, "forgets the columns behind the first piece",
     "piece / across, column = piece % across", "piece / across, column = 0 * across"},
    {&kWgmma, "forgets the last columns", "ceil_div(args.n, kThreads * kColumns)",
     "max(1, int(args.n / (kThreads * kColumns)))"},
    {&kWgmma, "squares the weight", "sum[j] += product(weight,",
     "sum[j] += product(weight * weight,"},
};

TEST(AddedRowsMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(AddedRowsMutants, UnchangedKernelsAreClean) { test::expect_clean({&kMma, &kSimt, &kWgmma}); }

}  // namespace kiln::added_rows_mutants_test
