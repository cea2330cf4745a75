// Lists of products on Hopper's tensor cores: mistakes in the tensor maps that are made for each
// product, in who acquires them, and in which stages and tiles a product has, planted one at a
// time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::wgmma_lists_mutants_test {

using test::Base;
using test::Mutant;

const Base kLists{"lists", "sm_90a",
                  "bf16 N T 150 100 130 groups=40 grouped=list epilogue=bias_row+residual align=16",
                  CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};
const Base kInTurn{
    "lists_in_turn", "sm_90a",
    "fp16 T N 136 200 200 groups=7 grouped=list epilogue=bias_col align=16",
    CudaWgmma{
        .left = 64, .right = 64, .stages = 3, .warpgroups = 2, .pingpong = true, .swap = true}};
const Base kPairs{
    "lists_in_pairs", "sm_90a", "bf16 N N 264 72 200 groups=6 grouped=list out=fp32 align=16",
    CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1, .cluster_left = 2}, 4};
const Base kShort{"lists_short", "sm_90a", "bf16 N T 128 64 400 groups=5 grouped=list align=16",
                  CudaWgmma{.left = 128, .right = 64, .stages = 4, .warpgroups = 2}, 16};

const Base kScaled{
    "lists_scaled", "sm_90a",
    "fp8 N T 150 130 400 groups=9 grouped=list scale=1x128:128x128 align=16",
    CudaWgmma{.left = 128, .right = 64, .stages = 3, .warpgroups = 2, .promote = true}};
const Base kOrdered{
    "lists_scaled_in_blocks", "sm_90a",
    "fp8 N T 150 130 400 groups=9 grouped=list scale=1x128 scale_order=blocks:blocks_4 align=16",
    CudaWgmma{
        .left = 64, .right = 64, .stages = 3, .warpgroups = 1, .swap = true, .promote = true}};
const Base kGated{"lists_gated", "sm_90a",
                  "bf16 N T 150 100 130 groups=9 grouped=list gate=silu epilogue=bias_col align=16",
                  CudaWgmma{.left = 128, .right = 64, .stages = 3, .warpgroups = 2}};
const Base kAlternating{
    "lists_gated_interleaved", "sm_90a",
    "fp16 N T 150 100 130 groups=9 grouped=list gate=sigmoid:interleaved align=16",
    CudaWgmma{.left = 128, .right = 64, .stages = 3, .warpgroups = 1, .swap = true}};
const Base kCodes{
    "lists_codes", "sm_90a",
    "fp8 N T 150 200 130 groups=9 grouped=list scale=line:tensor scale_d=1x128 out=fp8_e4m3 "
    "align=16",
    CudaWgmma{.left = 64, .right = 128, .stages = 3, .warpgroups = 1, .promote = true}};

const std::vector<Mutant> kMutants{
    {&kLists, "does not acquire the map of A", "tensor_map_acquire(left);", ""},
    {&kLists, "does not acquire the map of B", "tensor_map_acquire(right);", ""},
    {&kInTurn, "acquires the maps of the first product alone", "tensor_map_acquire(left);",
     "if (next == 0) tensor_map_acquire(left);"},
    {&kLists, "copies by the maps of the first product", "if (next == product) return;",
     "if (product >= 0) return;"},
    {&kLists, "multiplies D's first element where there is no k",
     "groups.stages_of(next) == 0 ? 1 : 0;", "0;"},
    {&kLists, "multiplies nothing where there is no k", "max(1, groups.stages_of(work.batch))",
     "groups.stages_of(work.batch)"},
    {&kLists, "forgets a stage that is not full", "(int(entries[i].k) + kGroupDepth - 1)",
     "(int(entries[i].k))"},
    {&kLists, "replaces fields before the map is there", "__syncwarp();\n  if (lane == 0) {",
     "if (lane == 0) {"},
    {&kLists, "keeps the largest product's address", "tensor_map_set_address(shared, operand);",
     ""},
    {&kLists, "keeps the largest k of a line", "tensor_map_set_elements<0>(shared, u32(length));",
     ""},
    {&kInTurn, "keeps the largest k of columns", "tensor_map_set_elements<1>(shared, u32(lines));",
     ""},
    {&kLists, "keeps the largest product's pitch", "tensor_map_set_pitch(shared, u64(pitch));", ""},
    {&kPairs, "counts pitches in elements of two bytes", "* i64(sizeof(T));", "* 1;"},
    {&kLists, "puts all maps where those of the first step lie", "int(chunk.first) + product)",
     "product)"},
    {&kLists, "puts maps over the entries", "static_cast<unsigned char*>(args.workspace) + behind",
     "static_cast<unsigned char*>(args.workspace)"},
    {&kLists, "makes each map of A twice", "+ number % 2;", ";"},
    {&kInTurn, "takes A to be the left operand", "(number % 2 == 0) != kSwap", "number % 2 == 0"},
    {&kInTurn, "takes all products to be as wide", "const int lefts = groups.width(work.batch);",
     "const int lefts = this->lefts;"},
    {&kInTurn, "passes a stage too many", "turn.skip(work.count);", "turn.skip(work.count + 1);"},
    {&kInTurn, "adds the bias of the first product", "own.bias = entry.bias;",
     "own.bias = entries_of(args)->bias;"},
    {&kPairs, "reads the tables before tiles are counted", "groups.count_tiles(int(threadIdx.x)",
     "if (args.m < 0) groups.count_tiles(int(threadIdx.x)"},
    {&kPairs, "stores in another product's D", "args_of_product(args, work.batch), 0);",
     "args_of_product(args, work.batch == 0 ? 1 : work.batch - 1), 0);"},
    {&kLists, "stores whole units beyond a row's end", "if (column + kOfUnit <= out.columns) {",
     "if (true) {"},
    {&kLists, "leaves a row's end out", "if (column + e < out.columns)", "if (column < 0)"},
    {&kPairs, "stores behind the last row", "|| row >= out.rows ||", "||"},
    {&kPairs, "reads units as they lie", "swizzled(at / kUnits, unit));",
     "u32(at / kUnits * kPitch + unit * 16));"},
    {&kLists, "drains a buffer before it is full", "__syncwarp();\n    of_turn::drain_buffer(",
     "of_turn::drain_buffer("},
    {&kPairs, "fills a buffer that others drain", "__syncwarp();\n      fill_buffer(",
     "fill_buffer("},
    {&kShort, "waits for a stage that no tile fills", "min(same_for_warp(work.count), kStages - 1)",
     "min(scheduler.stages, kStages - 1)"},
    {&kScaled, "brings the scales of another product",
     "const KilnGpuArgs args = args_of_product(whole, work.batch);",
     "const KilnGpuArgs args = args_of_product(whole, work.batch == 0 ? 1 : work.batch - 1);"},
    {&kScaled, "multiplies a stage of zeros by what is not a scale",
     "if (args.k == 0) return nullptr;", ""},
    {&kScaled, "counts the blocks of the largest k", "own.k = entry.k;", ""},
    {&kScaled, "takes B's scales to be A's", "own.scale_b = entry.scale_b;",
     "own.scale_b = entry.scale_a;"},
    {&kOrdered, "steps from block to block as far as in the largest product", "own.m = entry.m;",
     ""},
    {&kOrdered, "brings scales of the product before", "own.scale_a = entry.scale_a;",
     "own.scale_a = entries_of(args)->scale_a;"},
    {&kGated, "keeps the largest product's factors apart", "if (apart != 0) tensor_map_set_apart",
     "if (false) tensor_map_set_apart"},
    {&kGated, "takes the second factor to begin behind A's lines", "entry.n * entry.ldb",
     "entry.m * entry.ldb"},
    {&kGated, "counts tiles of both factors", "1) / kListColumns", "1) / (kListColumns * 2)"},
    {&kGated, "gates another product's D",
     "output_of(args_of_product(args, work.batch), 0);\n  keep_in_register",
     "output_of(args_of_product(args, 0), 0);\n  keep_in_register"},
    {&kAlternating, "steps over one line of B", "2 * entry.ldb", "entry.ldb"},
    {&kAlternating, "reads the zeros of another place where there is no k",
     "groups.stages_of(next) == 0 ? 1 : 0;", "0;"},
    {&kCodes, "writes the scales of another product", "own.scale_d = entry.scale_d;",
     "own.scale_d = entries_of(args)->scale_d;"},
    {&kCodes, "scales rows by another product's", "own.scale_a = entry.scale_a;",
     "own.scale_a = entries_of(args)->scale_a;"},
};

TEST(WgmmaListsMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(WgmmaListsMutants, UnchangedKernelsAreClean) {
  test::expect_clean(
      {&kLists, &kInTurn, &kPairs, &kShort, &kScaled, &kOrdered, &kGated, &kAlternating, &kCodes});
}

}  // namespace kiln::wgmma_lists_mutants_test
