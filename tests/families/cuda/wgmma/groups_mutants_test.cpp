// Grouped products on Hopper's tensor cores, without a GPU: mistakes in which rows and tiles are a
// group's, planted one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::wgmma_groups_mutants_test {

using test::Base;
using test::Mutant;

const Base kRows{"groups_rows", "sm_90a",
                 "bf16 N T 500 200 104 groups=7 grouped=rows epilogue=bias_row+residual align=16",
                 CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};
const Base kMasked{"groups_masked", "sm_90a",
                   "bf16 N T 150 200 104 groups=4 grouped=masked epilogue=bias_col align=16",
                   CudaWgmma{.left = 64, .right = 48, .stages = 3, .warpgroups = 1, .swap = true}};
const Base kMany{"groups_many", "sm_90a", "bf16 N T 900 64 64 groups=70 grouped=rows align=16",
                 CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};
const Base kBlocks{
    "groups_blocks", "sm_90a", "fp8 N T 300 96 272 groups=5 grouped=rows scale=1x128 align=16",
    CudaWgmma{.left = 128, .right = 32, .stages = 3, .warpgroups = 2, .promote = true}};

const Base kGated{
    "groups_gated", "sm_90a",
    "fp8 N T 150 96 272 groups=3 grouped=masked gate=silu scale=1x128:128x128 align=16",
    CudaWgmma{.left = 128, .right = 64, .stages = 3, .warpgroups = 2, .promote = true}};
const Base kIdle{"groups_idle", "sm_90a", "bf16 N T 100 64 64 groups=8 grouped=rows align=16",
                 CudaWgmma{.left = 128, .right = 64, .stages = 3, .warpgroups = 2}, 16};

const Base kOfK{"groups_of_k", "sm_90a",
                "bf16 T N 200 104 700 groups=7 grouped=k epilogue=bias_row+residual align=16",
                CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};
const Base kOfKInTurn{
    "groups_of_k_in_turn", "sm_90a",
    "fp16 T N 136 200 500 groups=6 grouped=k epilogue=bias_col align=16",
    CudaWgmma{
        .left = 64, .right = 64, .stages = 3, .warpgroups = 2, .pingpong = true, .swap = true}};
const Base kOfKInPairs{
    "groups_of_k_in_pairs", "sm_90a", "bf16 T N 264 72 400 groups=5 grouped=k align=16",
    CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1, .cluster_left = 2}, 4};
const Base kManyOfK{"groups_many_of_k", "sm_90a",
                    "bf16 T N 64 64 3000 groups=300 grouped=k align=16",
                    CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};
const Base kShortOfK{"groups_short_of_k", "sm_90a",
                     "bf16 T N 128 128 700 groups=4 grouped=k align=16",
                     CudaWgmma{.left = 128, .right = 64, .stages = 4, .warpgroups = 2}, 16};

const Base kGather{
    "groups_gather", "sm_90a",
    "bf16 N T 500 200 104 groups=7 grouped=rows gather=rows rows_of_a=300 align=16",
    CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2, .gather = true}};
const Base kGatherSwapped{
    "groups_gather_swapped", "sm_90a",
    "fp16 N T 300 200 200 groups=5 grouped=rows gather=rows rows_of_a=90 align=16",
    CudaWgmma{.left = 64, .right = 48, .stages = 3, .warpgroups = 1, .swap = true, .gather = true}};
// Groups whose lines run along k begin and end within stages.
const Base kAlong{
    "groups_along_k", "sm_90a",
    "fp8 N T 200 152 768 groups=7 grouped=k align=16 epilogue=bias_row scale=1x128",
    CudaWgmma{.left = 128, .right = 144, .stages = 3, .warpgroups = 2, .promote = true}};
const Base kAlongEmpty{
    "groups_along_k_empty", "sm_90a", "fp8 N T 72 64 128 groups=200 grouped=k align=16 scale=1x128",
    CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1, .promote = true}};
const Base kAlongInTurn{
    "groups_along_k_in_turn", "sm_90a", "bf16 N T 136 200 504 groups=6 grouped=k align=16",
    CudaWgmma{
        .left = 64, .right = 64, .stages = 3, .warpgroups = 2, .pingpong = true, .swap = true}};
const Base kAlongBytes{
    "groups_along_k_bytes", "sm_90a", "int8 N T 264 72 720 groups=5 grouped=k align=16",
    CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1, .cluster_left = 2}, 4};

const std::vector<Mutant> kMutants{
    {&kGather, "copies rows of A in their order",
     "row_of_a(args, min(row0 + p * kRowsAtOnce, last_row))",
     "min(row0 + p * kRowsAtOnce, last_row)"},
    {&kGatherSwapped, "looks rows up of the first group",
     "work.first_row + (kSwap ? work.right : work.left) * kGatherRows + first;",
     "(kSwap ? work.right : work.left) * kGatherRows + first;"},
    {&kGather, "lays rows down as they come", "(unit ^ r % 8) * 16", "unit * 16"},
    {&kGather, "arrives before the rows have come",
     "cp_async_arrive(shared.full + turn.stage * 8);",
     "mbarrier_arrive(shared.full + turn.stage * 8);"},
    {&kGatherSwapped, "does not show rows to the tensor cores",
     "fence_async_shared();\n    const u64 place", "const u64 place"},
    {&kGatherSwapped, "reads the list behind its end", "min(row0 + p * kRowsAtOnce, last_row)",
     "row0 + p * kRowsAtOnce"},
    {&kRows, "copies rows of the matrix, not of the group",
     "work.first_row + work.left * kLeftTile, k, batch_of_a",
     "work.left * kLeftTile, k, batch_of_a"},
    {&kRows, "takes the B of the first group", "work.batch = groups.holding(tile);",
     "work.batch = 0;"},
    {&kRows, "counts tiles from the first group's", "tile - groups.tiles_before(work.batch);",
     "tile;"},
    {&kRows, "stores whole boxes over the next group's rows",
     "kRows - (end - row), first_row + end", "0, first_row + row + kRows"},
    {&kRows, "stores at the matrix's first rows", "const int first_row = work.first_row;",
     "const int first_row = 0;"},
    {&kMasked, "stores in the first matrix", "const int first_row = work.batch * int(",
     "const int first_row = 0 * int("},
    {&kRows, "adds the residual of other rows",
     "static_cast<const TypeD*>(args.residual) + first_row * args.ldd;",
     "static_cast<const TypeD*>(args.residual);"},
    {&kRows, "adds C of other rows", "static_cast<const TypeD*>(args.c) + first_row * args.ldc;",
     "static_cast<const TypeD*>(args.c);"},
    {&kRows, "adds the bias of other rows", "static_cast<const TypeBias*>(args.bias) + first_row;",
     "static_cast<const TypeBias*>(args.bias);"},
    {&kRows, "forgets a tile that is not full", "(end - begin + kGroupRows - 1) / kGroupRows",
     "(end - begin) / kGroupRows"},
    {&kRows, "ends with the first group", "store_shared_word(tiles + count * 4, u32(before));",
     "store_shared_word(tiles + count * 4, load_shared_word(tiles + 4));"},
    {&kIdle, "waits for a stage that no tile fills",
     "if (group > 0 && scheduler.next < scheduler.tiles)", "if (group > 0)"},
    {&kMasked, "copies rows of the first matrix", "const int batch_of_a = work.batch;",
     "const int batch_of_a = 0;"},
    {&kMasked, "adds the first group's bias",
     "static_cast<const TypeBias*>(args.bias) + group * args.n;",
     "static_cast<const TypeBias*>(args.bias);"},
    {&kMasked, "stores all rows of a matrix", "own.m = rows;", ""},
    {&kMany, "counts the groups of a warp once", "before += __shfl_sync(0xffffffff, sum, 31);", ""},
    {&kMany, "adds no other lane's tiles", "if (lane >= step) sum += other;", ""},
    {&kMany, "reads the list with one warp", "for (int i = thread; i < count; i += threads)",
     "for (int i = thread; i < 32; i += threads)"},
    {&kBlocks, "takes scales of other rows", "line += work.first_row;", ""},
    {&kBlocks, "takes scales behind the matrix's", "batch = 0;", ""},
    {&kGated, "takes the scales of the first group's B", "lines, line, work.batch,",
     "lines, line, 0,"},
    {&kGated, "takes the scales of the first group's A", "i64 batch = work.batch,",
     "i64 batch = 0,"},
    {&kOfK, "multiplies tokens of the next group", "max(0, min(kDepth, end - k))", "kDepth"},
    {&kOfK, "multiplies tokens of the group before", "-zeros, line, hint", "0, line - zeros, hint"},
    // The other operand has zeros there: only a NaN among those tokens shows it.
    {&kOfK, "leaves the next group's first token in A", "work.left * kLeftTile, k, end,",
     "work.left * kLeftTile, k, min(end + 1, 700),"},
    {&kOfK, "leaves the next group's first token in B", "k, end, rank_left",
     "k, min(end + 1, 700), rank_left"},
    {&kOfK, "ends boxes a token early", "min(kDepth, end - k)", "min(kDepth, end - k - 1)"},
    {&kOfK, "begins at the first token", "work.first_k = groups.first_k(work.batch);",
     "work.first_k = 0;"},
    {&kOfK, "copies stages from the first token", "work.first_k + i * kDepth", "i * kDepth"},
    {&kOfK, "forgets a stage that is not full", "(work.k + kGroupDepth - 1) / kGroupDepth",
     "work.k / kGroupDepth"},
    {&kOfK, "multiplies nothing for an empty group",
     "max(1, (work.k + kGroupDepth - 1) / kGroupDepth)",
     "(work.k + kGroupDepth - 1) / kGroupDepth"},
    {&kOfK, "stores in the first group's D", "int(row_of(left, right)), work.batch);",
     "int(row_of(left, right)), 0);"},
    {&kOfK, "adds the first group's bias",
     "static_cast<const TypeBias*>(args.bias) + group * args.m;",
     "static_cast<const TypeBias*>(args.bias);"},
    {&kOfKInTurn, "adds the first group's bias",
     "static_cast<const TypeBias*>(args.bias) + group * args.n;",
     "static_cast<const TypeBias*>(args.bias);"},
    {&kOfKInTurn, "passes a stage too many", "turn.skip(work.count);",
     "turn.skip(work.count + 1);"},
    {&kOfKInPairs, "copies one half of a stage twice", "- kDepth + int(share) * kShare;",
     "- kDepth;"},
    {&kOfKInPairs, "puts each half's zeros before it", "line = k + max(0, first);",
     "line = k + max(0, first) + (first < 0 ? int(share) * kShare : 0);"},
    {&kManyOfK, "reads the list with one warp", "for (int i = thread; i < count; i += threads)",
     "for (int i = thread; i < 32; i += threads)"},
    {&kManyOfK, "believes what the list says", "max(0, min(int(args.k), list[i]))", "list[i]"},
    {&kShortOfK, "waits for a stage that no tile fills",
     "min(same_for_warp(work.count), kStages - 1)", "min(scheduler.stages, kStages - 1)"},
    {&kAlong, "multiplies elements of the group before", "i == 0 ? first : 0", "0"},
    {&kAlong, "multiplies elements of the next group", "i + 1 == count ? end : 128", "128"},
    {&kAlong, "leaves them in the left operand",
     "clear_line(stage, int(row_offset) + row, begin, behind);", ";"},
    {&kAlong, "leaves them in the right operand",
     "clear_line(stage + kLeftBytes, row, begin, behind);", ";"},
    {&kAlong, "clears the first warpgroup's lines alone", "int(row_offset) + row, begin",
     "row, begin"},
    {&kAlong, "clears its share of the right lines twice", "const int kFirst = group * 128;",
     "const int kFirst = 0 * 128;"},
    {&kAlong, "multiplies before others have cleared",
     "named_barrier_sync(kGroupBarrier + kWarpgroups, kWarpgroups * 128);", ""},
    {&kAlong, "clears places of other rows", "((byte / 16) ^ (row % 8)) * 16", "(byte / 16) * 16"},
    {&kAlong, "clears whole words", "head + tail >= 4 ? 0", "head + tail >= 1 ? 0"},
    {&kAlong, "begins stages with the group", "work.begin = work.first_k / kGroupDepth;",
     "work.begin = (work.first_k + kGroupDepth - 1) / kGroupDepth;"},
    {&kAlong, "forgets a stage that is not full",
     "(work.first_k + work.k + kGroupDepth - 1) / kGroupDepth",
     "(work.first_k + work.k) / kGroupDepth"},
    {&kAlong, "multiplies nothing for an empty group",
     "max(1, (work.first_k + work.k + kGroupDepth - 1) / kGroupDepth - work.begin);",
     "(work.first_k + work.k + kGroupDepth - 1) / kGroupDepth - work.begin;"},
    {&kAlong, "takes the scales of the first group", "if (from[e]) from[e] += work.begin;", ""},
    {&kAlongEmpty, "takes scales of an empty group", "if (work.k == 0) return nullptr;", ""},
    {&kAlong, "takes scales of A behind the matrix's",
     "i64 batch = 0, line =", "i64 batch = work.batch, line ="},
    {&kAlongInTurn, "counts bytes as elements", "constexpr int kBytes = 128 / kDepth;",
     "constexpr int kBytes = 1;"},
    {&kAlongInTurn, "passes a stage too many", "turn.skip(work.count);",
     "turn.skip(work.count + 1);"},
    {&kAlongBytes, "multiplies elements of the next group", "i + 1 == count ? end : 128", "128"},
    {&kAlongBytes, "multiplies elements of the group before", "i == 0 ? first : 0", "0"},
};

TEST(WgmmaGroupsMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(WgmmaGroupsMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kRows, &kMasked, &kMany, &kBlocks, &kGated, &kIdle, &kOfK, &kOfKInTurn,
                      &kOfKInPairs, &kManyOfK, &kShortOfK, &kAlong, &kAlongEmpty, &kAlongInTurn,
                      &kAlongBytes});
}

}  // namespace kiln::wgmma_groups_mutants_test
