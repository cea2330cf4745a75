// Rows of A and D by index: mistakes in which rows kernels read and write, planted one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::indices_mutants_test {

using test::Base;
using test::Mutant;

const Base kMma{"indices_mma", "sm_80",
                "bf16 N T 300 100 72 groups=7 grouped=rows rows_of_a=120 rows_of_d=500 "
                "epilogue=bias_row align=8 gather=rows scatter=rows",
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
    "indices_simt", "sm_80",
    "fp32 N N 90 70 40 groups=5 grouped=rows rows_of_a=60 rows_of_d=130 gather=rows "
    "scatter=rows",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kWgmma{
    "indices_wgmma", "sm_90a",
    "bf16 N T 300 104 104 groups=5 grouped=rows rows_of_a=120 rows_of_d=400 align=16 "
    "gather=rows scatter=rows",
    CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2, .pack_a = true}};
const Base kScales{
    "indices_scales", "sm_90a",
    "fp8 N T 200 96 272 groups=4 grouped=rows rows_of_a=90 scale=1x128 align=16 "
    "gather=rows",
    CudaWgmma{
        .left = 128, .right = 32, .stages = 3, .warpgroups = 2, .pack_a = true, .promote = true}};

const char* const kListed = "max(0, min(int(rows) - 1, static_cast<const int*>(list)[row]))";

const std::vector<Mutant> kMutants{
    {&kMma, "reads the row behind the one that is listed", "row_of_a(args, row0 + line",
     "1 + row_of_a(args, row0 + line"},
    {&kMma, "looks up the first copy's row alone", "row0 + line + i * kLinesAtOnce) : 0;",
     "row0 + line) : 0;"},
    {&kMma, "uses no list where a tile ends", "row_of[i] = there ?",
     "row_of[i] = lines < kBlockM && i > 0 ? 0 : there ?"},
    {&kMma, "reads the rows of another group", "static_cast<const int*>(args.index_a) + first_row;",
     "static_cast<const int*>(args.index_a);"},
    {&kMma, "writes to the rows of another group",
     "static_cast<const int*>(args.index_d) + first_row;",
     "static_cast<const int*>(args.index_d);"},
    {&kMma, "writes rows in order", "listed_row(out.index_d, row, out.rows_of_d)", "row"},
    {&kMma, "believes what the list says", kListed, "static_cast<const int*>(list)[row]"},
    {&kMma, "cuts what the list says at the rows of the product",
     "listed_row(args.index_a, row, args.rows_of_a)", "listed_row(args.index_a, row, args.m)"},
    {&kMma, "reads the list behind the group's last row",
     "const bool there = i * kLinesAtOnce < lines && mine(i);", "const bool there = true;"},
    {&kMma, "steps by tight rows of A", "gathered_pitch = args.lda * kSize;",
     "gathered_pitch = (args.k + 1) * kSize;"},
    {&kSimt, "reads rows in order", "return from + row_of[i] * ld + k_to(i);",
     "return from + (row + rows_to(i)) * ld + k_to(i);"},
    {&kSimt, "begins each group with the first row of the list", "row_of_a(args, first_row + line)",
     "row_of_a(args, line)"},
    {&kSimt, "writes rows in order", "row_of_d(out, row) + column",
     "out.d + row * out.ldd + column"},
    {&kSimt, "forgets the last row that there is", "min(int(rows) - 1,", "min(int(rows) - 2,"},
    {&kWgmma, "packs rows in order", "p.from + row_of_a(args, line) * p.ld",
     "p.from + i64(line) * p.ld"},
    {&kWgmma, "packs as many rows as A has", "packed_a_at(), args.m,",
     "packed_a_at(), args.rows_of_a,"},
    {&kWgmma, "writes rows in order", "row_of_d(out, row0 + row) + column0",
     "out.d + (row0 + row) * out.ldd + column0"},
    {&kWgmma, "writes to the rows of another group",
     "static_cast<const int*>(args.index_d) + first_row;",
     "static_cast<const int*>(args.index_d);"},
    {&kScales, "reads the scales of rows in order", "line < args.m ? row_of_a(args, line) : -1;",
     "line < args.m ? min(line, args.rows_of_a - 1) : -1;"},
    {&kScales, "reads the list behind its end", "line < args.m ? row_of_a(args, line) : -1;",
     "row_of_a(args, line);"},
};

TEST(IndicesMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(IndicesMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kMma, &kSimt, &kWgmma, &kScales});
}

}  // namespace kiln::indices_mutants_test
