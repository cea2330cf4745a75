// Lists of products: mistakes in which product a tile is of, and in what is its own, planted one at
// a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "support/mutants.h"

namespace kiln::list_mutants_test {

using test::Base;
using test::Mutant;

const Base kMma{"list_mma", "sm_80",
                "bf16 N T 150 100 130 groups=40 grouped=list epilogue=bias_row+residual align=16",
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
    "list_simt", "sm_80", "fp32 N N 90 70 40 groups=9 grouped=list epilogue=bias_col",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};

const Base kCodes{"list_mma_scaled", "sm_80",
                  "int8 N T 150 100 130 groups=40 grouped=list scale=line:tensor scale_d=tensor "
                  "out=s8 gate=relu align=16",
                  CudaMma{.block_m = 64,
                          .block_n = 64,
                          .block_k = 128,
                          .warps_m = 2,
                          .warps_n = 2,
                          .stages = 2,
                          .instruction_k = 32,
                          .bits_a = 3,
                          .base_a = 4,
                          .shift_a = 0,
                          .bits_b = 3,
                          .base_b = 4,
                          .shift_b = 0}};
const Base kScaledSimt{
    "list_simt_scaled", "sm_90a",
    "fp8 N N 90 70 40 groups=9 grouped=list scale=tensor:line gate=silu:interleaved",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};

const std::vector<Mutant> kMutants{
    {&kMma, "takes another product's entry", "entries_of(args)[product];",
     "entries_of(args)[product == 0 ? 1 : product - 1];"},
    {&kMma, "reads A of another product", "own.a = entry.a;",
     "own.a = (&entry)[product == 0 ? 1 : -1].a;"},
    {&kMma, "keeps the largest k", "own.k = entry.k;", ""},
    {&kMma, "multiplies the k of a neighbour", "groups.entries[work.batch].k)",
     "groups.entries[work.batch == 0 ? 1 : work.batch - 1].k)"},
    {&kMma, "leaves a product without k out", "work_on(work, args_of_product",
     "if (work.count > 0) work_on(work, args_of_product"},
    {&kMma, "steps through A by another pitch", "own.lda = entry.lda;", "own.lda = entry.ldb;"},
    {&kMma, "writes D by the pitch of C", "own.ldd = entry.ldd;", "own.ldd = entry.ldc + 8;"},
    {&kMma, "adds the bias of the first product", "own.bias = entry.bias;",
     "own.bias = entries_of(args)->bias;"},
    {&kMma, "adds the residual of the first product", "own.residual = entry.residual;",
     "own.residual = entries_of(args)->residual;"},
    {&kMma, "brings entries one place too early", "to[i] = from[i];",
     "to[i] = from[i + 13 < words ? i + 13 : i];"},
    {&kMma, "takes one tile a block", "more = scheduler.take(work);",
     "{ more = scheduler.next < int(gridDim.x); scheduler.take(work); }"},
    {&kMma, "multiplies while the sums before are stored",
     "// Also until every warp has stored its sums, which lie where the next copies go.\n    "
     "__syncthreads();",
     ""},
    {&kSimt, "reads C of another product", "own.c = entry.c;", "own.c = entries_of(args)->c;"},
    {&kSimt, "reads C by the pitch of D", "own.ldc = entry.ldc;", "own.ldc = entry.ldd;"},
    {&kSimt, "works on the largest m", "own.m = entry.m;", ""},
    {&kSimt, "works on the largest n", "own.n = entry.n;", ""},
    {&kSimt, "keeps the strides of places",
     "own.stride_a = own.stride_b = own.stride_c = own.stride_d = 0;", ""},
    {&kSimt, "counts as many tiles in each product", "tiles_before(i) * width(i)",
     "tiles_before(i) * width(0)"},
    {&kSimt, "takes all products to be as wide", "const int rights = groups.width(work.batch);",
     "const int rights = this->rights;"},
    {&kSimt, "counts before the sizes are there",
     "if (warp == 0) scheduler.groups.count_tiles(lane);",
     "if (lane < 0) scheduler.groups.count_tiles(lane);"},
    {&kCodes, "reads the scales of a batch", "(entry.scale_a) - product * entry.m;",
     "(entry.scale_a);"},
    {&kCodes, "reads B's scale of a batch", "(entry.scale_b) - product;", "(entry.scale_b);"},
    {&kCodes, "divides by the scale of a batch", "(entry.scale_d) - product;", "(entry.scale_d);"},
    {&kCodes, "counts tiles of both factors", "1) / kListColumns", "1) / (kListColumns * 2)"},
    {&kCodes, "brings entries one place too early", "to[i] = from[i];",
     "to[i] = from[i + 16 < words ? i + 16 : i];"},
    {&kScaledSimt, "scales by the first product's scale", "(entry.scale_a) - product;",
     "(entries_of(args)->scale_a) - product;"},
    {&kScaledSimt, "takes B to have one factor", "- product * 2 * entry.n;",
     "- product * entry.n;"},
};

TEST(ListMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(ListMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kMma, &kSimt, &kCodes, &kScaledSimt});
}

}  // namespace kiln::list_mutants_test
