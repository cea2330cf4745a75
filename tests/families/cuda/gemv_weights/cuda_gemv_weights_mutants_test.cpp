// The planted bugs of few rows times weights: parts of k, codes, scales and edges.
#include <gtest/gtest.h>

#include <vector>

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

const std::vector<Mutant> kMutants{
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
    // Sums.
    {&kGroups, "puts rows down as columns", "lane % 4 * 2 + e % 2][", "lane % 4 * 2 + e / 2]["},
    {&kColumns, "computes one batch", "batch = tile / across", "batch = 0"},
};

TEST(CudaGemvWeightsMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(CudaGemvWeightsMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kGroups, &kReads, &kColumns, &kFloats, &kMx});
}

}  // namespace kiln::cuda_gemv_weights_mutants_test
