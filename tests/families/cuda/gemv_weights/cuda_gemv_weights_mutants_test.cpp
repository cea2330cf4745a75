// The planted bugs of few rows times weights: parts of k, codes, scales and edges.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/gemv_weights/config.h"
#include "support/mutants.h"

namespace kiln::cuda_gemv_weights_mutants_test {

using test::Base;
using test::Mutant;

/// A group a chunk, several chunks of each warp beyond those on their way, ragged rows and columns.
const Base kGroups{"groups", "sm_90a",
                   "bf16_int4 N T 13 75 1408 group=128 lda=1416 ldb=1440 ldc=80 ldd=80 align=16",
                   CudaGemvWeights{.tile_n = 32, .tile_m = 8, .warps = 2, .ahead = 3}};
/// Two reads a chunk, integer zero points.
const Base kReads{"reads", "sm_80",
                  "fp16_int8 N T 9 37 640 group=128 zero=int ldc=40 ldd=40 align=16",
                  CudaGemvWeights{.tile_n = 16, .tile_m = 16, .warps = 2, .ahead = 1}};
/// One scale a column, zero points between codes, k that ends within a chunk.
const Base kColumns{"columns", "sm_80",
                    "bf16_uint4 N T 5 40 416 group=k zero=float align=16 batch=2",
                    CudaGemvWeights{.tile_n = 16, .tile_m = 8, .warps = 3, .ahead = 2}};
/// Floats in groups of half a read.
const Base kFloats{"floats", "sm_80", "fp16_fp8 N T 7 40 320 group=32 scale_type=bf16 align=16",
                   CudaGemvWeights{.tile_n = 16, .tile_m = 8, .warps = 3, .ahead = 2}};
/// Codes of four bits in blocks of 32.
const Base kMx{"mx", "sm_80", "fp16_fp4 N T 7 40 320 group=mx32 batch=2 align=16",
               CudaGemvWeights{.tile_n = 16, .tile_m = 8, .warps = 3, .ahead = 2}};
/// Factors that are stacked, of a batch; D has an odd number of columns, the last tile few of them.
const Base kGate{"gate", "sm_90a",
                 "bf16_uint4 N T 13 75 1408 batch=2 group=128 zero=int gate=silu epilogue=bias_col "
                 "align=16",
                 CudaGemvWeights{.tile_n = 32, .tile_m = 8, .warps = 2, .ahead = 3}};
/// Columns that alternate, scales of squares that hold columns of both factors.
const Base kAlternating{"alternating", "sm_80",
                        "fp16_fp8 N T 9 150 384 batch=2 group=128x128 gate=gelu:interleaved "
                        "epilogue=residual align=16",
                        CudaGemvWeights{.tile_n = 16, .tile_m = 8, .warps = 3, .ahead = 2}};
/// Squares of stacked factors, of which one begins within the first and ends within the second.
const Base kSquares{"squares", "sm_80",
                    "bf16_fp8 N T 5 70 384 batch=2 group=128x128 gate=relu align=16",
                    CudaGemvWeights{.tile_n = 64, .tile_m = 8, .warps = 2, .ahead = 1}};
/// Groups of rows of one matrix, several tiles of some.
const Base kGrouped{"grouped", "sm_90a",
                    "bf16_uint4 N T 90 70 512 groups=5 grouped=rows group=128 zero=int "
                    "epilogue=bias_col align=16",
                    CudaGemvWeights{.tile_n = 32, .tile_m = 8, .warps = 2, .ahead = 2}};
/// More groups than a warp has lanes, so several warps read the list.
const Base kManyGroups{
    "many groups", "sm_90a",
    "bf16_uint4 N T 90 70 128 groups=40 grouped=rows group=128 zero=int align=16",
    CudaGemvWeights{.tile_n = 32, .tile_m = 8, .warps = 2, .ahead = 2}};
/// Groups with rows of their own, squares of scales, a gate.
const Base kMasked{"masked", "sm_80",
                   "bf16_fp8 N T 30 70 384 groups=4 grouped=masked group=128x128 gate=silu "
                   "epilogue=bias_row+residual align=16",
                   CudaGemvWeights{.tile_n = 32, .tile_m = 16, .warps = 2, .ahead = 1}};

const std::vector<Mutant> kMutants{
    // Groups.
    {&kGrouped, "reads the first group's rows", "first_row * step_a", "0 * step_a"},
    {&kGrouped, "steps from row to row by an element", "rows, all.lda)", "rows, 1)"},
    {&kGrouped, "reads the first group's codes", "batch * args.stride_b", "0 * args.stride_b"},
    {&kGrouped, "reads the first group's scales", "int(batch) * int(args.n) + column", "column"},
    {&kGrouped, "counts a tile of columns too few", "u32(all.n + kTileN - 1)", "u32(all.n)"},
    {&kGrouped, "computes rows of the next group", "own.m = rows;", "own.m = args.m - first_row;"},
    {&kGrouped, "takes the tiles of all groups for its own",
     "blockIdx.x - u32(groups.tiles_before(batch))", "blockIdx.x"},
    {&kGrouped, "works where no group has rows",
     "if (int(blockIdx.x) >= groups.tiles_before(groups.count)) return;", ";"},
    {&kGrouped, "reads the list before the grid in front has ended",
     "  wait_for_previous_grid();\n", "\n"},
    {&kManyGroups, "counts before the list is there",
     "kWarps * 32);\n  __syncthreads();\n  if (threadIdx.x < 32)",
     "kWarps * 32);\n  if (threadIdx.x < 32)"},
    {&kMasked, "reads the first group's squares", "int(batch) * lines", "0 * lines"},
    {&kMasked, "forgets the first row of a group's bias", "group * args.m;", "0;"},
    {&kMasked, "computes rows that do not count", "own.m = rows;", "own.m = args.m;"},
    {&kGroups, "starts before the grid in front has ended", "  wait_for_previous_grid();\n", "\n"},
    // Parts of k.
    {&kGroups, "starts every warp at the first chunk", "for (int first = warp;",
     "for (int first = 0;"},
    {&kGroups, "multiplies chunks out of turn", "source.fetch(codes[s], chunk + kAhead * kWarps)",
     "source.fetch(codes[s], chunk + kWarps)"},
    {&kGroups, "forgets the chunks that were fetched last", "if (chunk >= chunks) break;",
     "if (chunk + kWarps >= chunks) break;"},
    {&kGroups, "keeps A's chunk", "source.fetch(left, chunk + kWarps)",
     "source.fetch(left, chunk)"},
    {&kReads, "reads the first half of a chunk twice", "chunk * kDecodeK + r * 4 * kLaneCodes",
     "chunk * kDecodeK"},
    {&kColumns, "leaves out the last warp's sums", "for (int w = 1; w < kWarps; ++w)",
     "for (int w = 1; w + 1 < kWarps; ++w)"},
    {&kColumns, "adds sums before all are there", "  __syncthreads();\n", "\n"},
    // Codes and elements.
    {&kGroups, "gives all lanes of a quad the same codes", "lane % 4 * kLaneCodes", "0"},
    {&kGroups, "takes the first eight columns twice", "u32(min(i64(c * 8 + lane / 4)",
     "u32(min(i64(lane / 4)"},
    {&kReads, "takes the first eight rows twice", "u32(min(i64(j * 8 + lane / 4)",
     "u32(min(i64(lane / 4)"},
    {&kGroups, "leaves A's elements in their order", "pair_alike(to[r][j][w]);", ";"},
    {&kGroups, "takes the other half of k", "s * 2 + e / 2,", "s * 2 + 1 - e / 2,"},
    {&kGroups, "takes the other columns' codes", "codes[r][i * 2 + e % 2][w]",
     "codes[r][i * 2 + e / 2][w]"},
    {&kFloats, "forgets the sign of a float", "0x80008000", "0x00000000"},
    {&kFloats, "moves a float's bits too far", "magnitudes >> 1", "magnitudes >> 2"},
    {&kFloats, "has another bias", "0x5c005c00", "0x58005800"},
    {&kFloats, "takes the floats of a pair for one another", "0x1404 : 0x3424", "0x0414 : 0x2434"},
    {&kMx, "forgets the sign of a float of four bits", "codes, 0x80008000, 0x74007400",
     "codes, 0x00000000, 0x74007400"},
    {&kMx, "moves a float's bits too far", "codes >> 3", "codes >> 4"},
    {&kMx, "has another bias", "0x74007400", "0x78007800"},
    {&kMx, "flushes the denormal", "codes >> 3 & 0x0e000e00", "codes >> 3 & 0x0c000c00"},
    {&kMx, "takes neighbouring floats for a pair", "12 - i * 4", "12 - i * 2"},
    // Scales and zero points.
    {&kGroups, "scales by the neighbour's scale", "factors.scale[i * 2 + e / 2][0] * sum",
     "factors.scale[i * 2][0] * sum"},
    {&kGroups, "keeps the scales of the chunk before",
     "scaling.fetch(fetched[s], chunk + kAhead * kWarps)", "scaling.fetch(fetched[s], chunk)"},
    {&kReads, "takes zero points of the other columns", "factors.offset[i * 2 + e % 2][0]",
     "factors.offset[i * 2][0]"},
    {&kColumns, "rounds zero points",
     "        sum -= factors.rest[i * 2 + e / 2][0] * left_sums[j][e % 2];\n", "\n"},
    {&kColumns, "takes zero points off another row", "left_sums[j][e % 2]", "left_sums[j][e / 2]"},
    // Edges.
    {&kColumns, "reads A beyond k", "if (at < k)\n            some", "some"},
    {&kColumns, "reads codes beyond k", "if (at < k) {\n          load",
     "if (true) {\n          load"},
    {&kGroups, "reads columns beyond the last", "args.n - 1 - column0", "args.n - column0"},
    {&kGroups, "reads rows beyond the last", "args.m - 1 - row0", "args.m - row0"},
    {&kGroups, "stores a row beyond the last", "row0 + row >= out.rows", "row0 + row > out.rows"},
    {&kGroups, "stores a column beyond the last", "column0 + column >= out.columns",
     "column0 + column > out.columns"},
    // Factors of a gate.
    {&kGate, "reads one factor twice", "c / kTilesM * other", "c / kTilesM * 0"},
    {&kGate, "scales both factors by the first one's scales",
     "line < kHalf ? column : int(args.n) + column", "column"},
    {&kGate, "counts half of a batch's scales", "int(batch) * columns", "int(batch) * int(args.n)"},
    {&kGate, "begins a tile at B's line", "i64(tile % across) * kColumns",
     "i64(tile % across) * kTileN"},
    {&kGate, "computes half of the tiles", "u32(args.n + kColumns - 1) / kColumns",
     "u32(args.n + kTileN - 1) / kTileN"},
    {&kGate, "lets both factors through", "product(silu(acc0), acc1)", "product(acc0, acc1)"},
    {&kGate, "takes the factors for each other", "store_gated(out, first, second",
     "store_gated(out, second, first"},
    {&kGate, "meets the column beside", "second = parts[0][row][column + kColumns]",
     "second = parts[0][row][column + kColumns - 1]"},
    {&kGate, "leaves out a warp's sums of one factor",
     "second += parts[w][row][column + kColumns];", ";"},
    {&kGate, "adds the first factor's bias to both", "return out.columns + column;",
     "return column;"},
    {&kGate, "has a factor as long as D", "s.other = args.n * args.ldb", "s.other = 8 * args.ldb"},
    {&kAlternating, "steps from line to line", "const i64 step = 2 * args.ldb",
     "const i64 step = args.ldb"},
    {&kAlternating, "reads the factor beside another column", "s.other = args.ldb",
     "s.other = 3 * args.ldb"},
    {&kAlternating, "scales by the column of D", "return 2 * column + line / kHalf;",
     "return column;"},
    {&kAlternating, "forgets the residual", "acc1, x.x0)", "acc1, Real(0))"},
    {&kSquares, "counts half of a batch's squares", "(columns + kGroupColumns - 1)",
     "(int(args.n) + kGroupColumns - 1)"},
    {&kSquares, "begins the second factor's squares anew", "int(args.n) + column;",
     "128 + column;"},
    // Sums.
    {&kGroups, "puts rows down as columns", "lane % 4 * 2 + e % 2][", "lane % 4 * 2 + e / 2]["},
    {&kColumns, "computes one batch", "batch = tile / across", "batch = 0"},
};

TEST(CudaGemvWeightsMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(CudaGemvWeightsMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kGroups, &kReads, &kColumns, &kFloats, &kMx, &kGate, &kAlternating,
                      &kSquares, &kGrouped, &kMasked});
}

}  // namespace kiln::cuda_gemv_weights_mutants_test
