// Mistakes planted in what expressions do beside groups: another group's vector, a row that its
// group does not move, a row of no group that a step behind the kernels touches.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cpu/packed/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/hip/simt/config.h"
#include "support/host_mutants.h"
#include "support/mutants.h"

namespace kiln::grouped_expression_mutants_test {

using test::Base;
using test::Mutant;

constexpr CudaSimt kConfig{
    .block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4};

// A NaN that memory was filled with stays that NaN in a sum: of rows of no group other types and
// comparisons make something else.
const Base kRows{"grouped_expression_rows", "sm_80",
                 "fp32 N N 37 45 20 groups=3 grouped=rows epilogue=d=acc*s[m]+b[batch,n]+r[m,n]"
                 ":ld=50+m;z[m,n]=acc;q[m]:fp16=sum(acc)",
                 kConfig};
const Base kBehind{"grouped_expression_behind", "sm_80",
                   "fp32 N N 37 45 20 groups=3 grouped=rows epilogue=s[m]=max(abs(acc));"
                   "d=acc-s[m]*b[batch,n]",
                   kConfig};
const Base kBlocks{"grouped_expression_blocks", "sm_80",
                   "fp32 N N 37 45 20 groups=3 grouped=masked epilogue=s[batch,m,n/8]="
                   "max(abs(acc));d=where(acc*2>s[batch,m,n/8],acc,0)",
                   kConfig};
const Base kScattered{"grouped_expression_scattered", "sm_80",
                      "fp32 N N 37 45 20 groups=3 grouped=rows scatter=rows rows_of_d=50 "
                      "epilogue=s[m]=max(abs(acc));d=acc-s[m]",
                      kConfig};
const Base kWgmma{"grouped_expression_wgmma", "sm_90a",
                  "bf16 N T 150 200 96 groups=3 grouped=rows epilogue=d=acc+b[batch,n]+r[m,n];"
                  "q[m]=sum(acc) align=16",
                  CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};
const Base kHip{
    "grouped_expression_hip", "gfx942",
    "fp32 N N 37 45 20 groups=3 grouped=rows epilogue=y=acc+b[batch,n];"
    "d=y-sum[m](y)*t[batch,n];q[m]=sum(acc)",
    HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2, .pad = 0}};

const std::vector<Mutant> kMutants{
    {&kRows, "gives all groups the first vector", " + batch * args.extra_stride[1]", ""},
    {&kRows, "reads the rows of the first group", " + args.first_row * args.extra_ld[2]", ""},
    {&kRows, "reads a row's number in another line", "args.extra[0]) + args.first_row",
     "args.extra[0])"},
    {&kRows, "counts rows from the group's first", "Real(row + out.first_row)", "Real(row)"},
    {&kRows, "stores at the rows of the first group", " + args.first_row * args.output_ld[0]", ""},
    {&kRows, "keeps values at the rows of the first group", " + args.first_row * args.output_ld[1]",
     ""},
    {&kRows, "forgets which row is first", "own.first_row = first_row;", "own.first_row = 0;"},
    {&kRows, "reduces rows of no group", "return group < args.batch;", "return true;"},
    {&kBehind, "stores rows of no group", "if (!find_group(args, row, batch)) break;",
     "if (!find_group(args, row, batch)) batch = 0;"},
    {&kBehind, "takes the row behind a group for one of it", "ends[group] <= row",
     "ends[group] < row"},
    {&kBehind, "gives all groups the first vector", "behind_of(args, batch)", "behind_of(args, 0)"},
    {&kBlocks, "stores masked rows", "return there < args.m ? there : args.m;", "return args.m;"},
    {&kBlocks, "takes the row behind the last one", "? there : args.m", "? there + 1 : args.m"},
    {&kBlocks, "finds another group's rows", "(args.groups)[matrix]", "(args.groups)[0]"},
    {&kScattered, "stores rows of D in order",
     "listed_row(out.index_d, row, out.rows_of_d) * out.ldd + first", "row * out.ldd + first"},
    {&kWgmma, "gives all groups the first vector", " + batch * args.extra_stride[0]", ""},
    {&kWgmma, "reads the rows of the first group", " + args.first_row * args.extra_ld[1]", ""},
    {&kWgmma, "keeps values at the rows of the first group",
     " + args.first_row * args.output_ld[0]", ""},
    {&kHip, "stores rows of no group", "if (!find_group(args, row, batch)) break;",
     "if (!find_group(args, row, batch)) batch = 0;"},
    {&kHip, "keeps values at the rows of the first group", " + args.first_row * args.output_ld[2]",
     ""},
};

const test::HostBase kHost{
    "avx2", "fp32 N T 37 45 20 groups=3 grouped=rows epilogue=d=acc*b[batch,n]+m;q[m]=sum(acc)",
    HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 2, .kc = 16, .mc = 6, .nc = 32}};
const std::vector<test::HostMutant> kHostMutants{
    {&kHost, "counts rows from the group's first", "Real(row + out.first_row)", "Real(row)"},
    {&kHost, "leaves out the last row", "rows = call->batch * call->m;",
     "rows = call->batch * call->m - 1;"},
};

TEST(GroupedExpressionMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(GroupedExpressionMutants, AreCaughtOnCpus) { test::expect_caught_on_host(kHostMutants); }

TEST(GroupedExpressionMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kRows, &kBehind, &kBlocks, &kScattered, &kWgmma, &kHip});
  const test::HostBase* const hosts[] = {&kHost};
  test::expect_right_on_host(hosts);
}

}  // namespace kiln::grouped_expression_mutants_test
