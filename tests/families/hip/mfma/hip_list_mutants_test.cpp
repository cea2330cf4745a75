// Lists of products and groups of k by hip_mfma and hip_simt: mistakes in which product or part of
// k a block has, and in what lies at the ends of lines, planted one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/simt/config.h"
#include "support/mutants.h"

namespace kiln::hip_list_mutants_test {

using test::Base;
using test::Mutant;

const Base kAlong{"list_along", "gfx942",
                  "bf16 N T 150 100 130 groups=40 grouped=list epilogue=bias_row+residual align=16",
                  HipMfma{.rows = 16,
                          .k = 16,
                          .tile_m = 64,
                          .tile_n = 64,
                          .depth = 64,
                          .waves_m = 2,
                          .waves_n = 2,
                          .staging = Staging::twice,
                          .chunk = 2}};
const Base kAcross{"list_across", "gfx942",
                   "bf16 T N 100 150 200 groups=9 grouped=list epilogue=bias_col align=16",
                   HipMfma{.rows = 16,
                           .k = 16,
                           .tile_m = 128,
                           .tile_n = 128,
                           .depth = 128,
                           .waves_m = 2,
                           .waves_n = 2,
                           .staging = Staging::single,
                           .chunk = 0}};
const Base kTurned{"list_turned", "gfx950", "bf16 T N 100 150 200 groups=9 grouped=list align=16",
                   HipMfma{.rows = 16,
                           .k = 32,
                           .tile_m = 64,
                           .tile_n = 64,
                           .depth = 128,
                           .waves_m = 2,
                           .waves_n = 4,
                           .staging = Staging::twice,
                           .chunk = 0,
                           .pace = Pace::pingpong,
                           .turn = true}};
const Base kCodes{"list_scaled", "gfx942",
                  "int8 N T 90 100 130 groups=9 grouped=list out=bf16 scale=line:tensor align=16",
                  HipMfma{.rows = 16,
                          .k = 32,
                          .tile_m = 64,
                          .tile_n = 64,
                          .depth = 64,
                          .waves_m = 2,
                          .waves_n = 2,
                          .staging = Staging::twice,
                          .chunk = 0}};
const Base kOfK{"groups_of_k", "gfx942",
                "bf16 N T 90 70 400 groups=6 grouped=k epilogue=bias_row align=16",
                HipMfma{.rows = 16,
                        .k = 16,
                        .tile_m = 64,
                        .tile_n = 64,
                        .depth = 64,
                        .waves_m = 2,
                        .waves_n = 2,
                        .staging = Staging::twice,
                        .chunk = 0}};
const Base kSimt{"simt_list", "gfx942",
                 "fp8 N T 90 70 140 groups=9 grouped=list scale=1x128:128x128",
                 HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2}};
const Base kSimtOfK{"simt_of_k", "gfx942", "fp32 T N 40 50 120 groups=5 grouped=k",
                    HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2}};

const std::vector<Mutant> kMutants{
    {&kAlong, "takes the product before", "first = middle + 1;", "first = middle, last = middle;"},
    {&kAlong, "takes the product behind", "if (block < counts[middle])",
     "if (block + 1 < counts[middle])"},
    {&kAlong, "counts as many tiles in each product", "(u32(entry.n)", "(u32(chunk.entries->n)"},
    {&kAlong, "counts anew in each step", "chunk.first == 0 ? 0 : counts[-1]", "0"},
    {&kAlong, "has tiles behind the last", "if (block >= counts[last]) return {-1, 0};", ""},
    {&kAlong, "deals the blocks of all products", "args.batch = 1;", ""},
    {&kAlong, "keeps the largest k", "own.k = entry.k;", ""},
    {&kAlong, "leaves a product without k out", "Work work = work_of(args, own.block);",
     "if (args.k == 0) return;\n  Work work = work_of(args, own.block);"},
    {&kAlong, "brings entries one place too early", "to[i] = from[i];",
     "to[i] = from[i + 13 < words ? i + 13 : i];"},
    {&kAlong, "brings every entry to the first places", "(args.workspace) + chunk.first);",
     "(args.workspace));"},
    {&kAlong, "loads whole units at the end of k", "k_left * kElement % Width == 0", "true"},
    {&kAlong, "reads elements beyond k", "&& i32(k) < k_left;", ";"},
    {&kAlong, "reads elements of rows beyond the last", "i32(row) < rows &&", ""},
    {&kTurned, "stores four elements at the end of a row", "if (c + 4 > out.columns) {",
     "if (c + 4 > out.columns + 3) {"},
    {&kAlong, "leaves the end of a row out", "if (c + e < out.columns)",
     "if (c + e + 1 < out.columns)"},
    {&kAcross, "loads whole units at the end of the last line", "rows * kElement % Width == 0",
     "true"},
    {&kAcross, "takes a stage before the last to end with its rows",
     "if (lines_follow()) bytes = depth * pitch;", ""},
    {&kAcross, "takes the elements of a row for those of the next", "From::kAlong ? slot / kUnits",
     "!From::kAlong ? slot / kUnits"},
    {&kAcross, "stores what it did not load", "if (late_b.whole<kWidthB>())", "if (true)"},
    {&kAcross, "copies the stage behind", "    late_a = from_a;\n",
     "    late_a = from_a, late_a.step();\n"},
    {&kTurned, "copies every line to the first",
     "chunk_address<Rows>(line, at / kChunkBytes);\n    ds_write",
     "chunk_address<Rows>(0, at / kChunkBytes);\n    ds_write"},
    {&kCodes, "reads the scales of a batch", "(entry.scale_a) - product * entry.m;",
     "(entry.scale_a);"},
    {&kCodes, "takes the first product for the batch", "work.batch = own.product;", ""},
    {&kOfK, "begins with the first k", "work.batch, own.first,", "work.batch, 0,"},
    {&kOfK, "takes what all groups have", "work.k_end = own.count;", ""},
    {&kOfK, "begins where it ends", "return {first, end - first};", "return {end, end - first};"},
    {&kOfK, "adds the bias of the first group", "+ group * args.m;", ";"},
    {&kOfK, "leaves an empty group out", "work.k_end = own.count;",
     "work.k_end = own.count;\n  if (own.count == 0) return;"},
    {&kSimt, "scales as the first product", "entries_of(args)[own.product];",
     "entries_of(args)[0];"},
    {&kSimt, "takes the scales of a batch", "batch = 0;", "batch = own.product;"},
    {&kSimtOfK, "takes the next line for the next k", "kAlongB ? 1 : args.ldb", "1"},
    {&kSimtOfK, "begins with the first k", "batch, own.first,", "batch, 0,"},
};

TEST(HipListMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(HipListMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kAlong, &kAcross, &kTurned, &kCodes, &kOfK, &kSimt, &kSimtOfK});
}

}  // namespace kiln::hip_list_mutants_test
