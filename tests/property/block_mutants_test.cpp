// Mistakes in what expressions make of neighbours, planted one at a time: in blocks of rows, in
// pairs of columns and in elements that neighbours share. Verification must find each.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cpu/packed/config.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/hip/simt/config.h"
#include "support/host_mutants.h"
#include "support/mutants.h"

namespace kiln::block_mutants_test {

using test::Base;
using test::HostBase;
using test::HostMutant;
using test::Mutant;

const CudaSimt kSimtConfig{
    .block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4};

const Base kBlocks{"blocks", "sm_80",
                   "fp32 N N 13 45 20 batch=2 epilogue=y=acc+b[n];"
                   "s[batch,m,n/32]=max(abs(y))/3;d=y/s[batch,m,n/32]+sum[m,n/2](y)-"
                   "even(y)*odd(y+n)+sum[m,n/8](y*n+1)",
                   kSimtConfig};
const Base kRow{
    "blocks_row", "sm_80",
    "fp32 N N 2 2100 20 batch=2 epilogue=y=acc*rsqrt(sum[m](acc*acc)/2100+1)*g[n/3]+b[n];"
    "s[batch,n/64,m]=max(abs(y));d=y/s[batch,n/64,m]",
    kSimtConfig};
/// So many rows that each has one block, which takes several pieces of it.
const Base kPieces{"blocks_pieces", "sm_80",
                   "fp32 N N 700 1100 4 epilogue=y=acc*rsqrt(sum[m](acc*acc)/1100+1)*g[n/3]+b[n];"
                   "d=y-max[m,n/64](y)",
                   kSimtConfig};
const Base kShared{
    "blocks_shared", "sm_80",
    "bf16 N T 70 70 64 epilogue=z[m,n/2]=even(acc)*(odd(acc)+3);"
    "d=acc*c[m,n/2]+b[n/3]-r[m/4,n]+h[m/5]*p[n/2,m]+(m*3+n)%5 align=16",
    CudaMma{.block_m = 64, .block_n = 64, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 2}};
const Base kHip{
    "blocks_hip", "gfx942",
    "fp32 N N 13 45 20 batch=2 epilogue=y=gelu(acc+b[n]);"
    "s[batch,m,n/32]=logsumexp(y)/3;d=y-s[batch,m,n/32]+sum[m,n/2](y)-even(y)*odd(y)",
    HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2, .pad = 0}};

/// Of an odd number of columns: the last one is alone.
const char* const kPairs =
    "bf16 N T 150 199 96 ldd=208 epilogue=y=acc+b[n];x=even(y);z=odd(y);q[m,n/2]:fp32=x*(z+3);"
    "d=pair(x*c[m,n/2]-z*s[m,n/2],x*s[m,n/2]+z*c[m,n/2]) align=16";
const Base kRolled{"pairs_rolled", "sm_90a", kPairs,
                   CudaWgmma{.left = 128, .right = 96, .stages = 3}};
const Base kSwapped{"pairs_swapped", "sm_90a", kPairs,
                    CudaWgmma{.left = 128, .right = 96, .stages = 3, .swap = true}};
const Base kSummed{
    "pairs_summed", "sm_90a", kPairs,
    CudaWgmma{.left = 128, .right = 96, .stages = 3, .sharing = Sharing::summed, .splits = 2}};
const Base kSummedSwapped{"pairs_summed_swapped", "sm_90a", kPairs,
                          CudaWgmma{.left = 128,
                                    .right = 96,
                                    .stages = 3,
                                    .swap = true,
                                    .sharing = Sharing::summed,
                                    .splits = 2}};

/// For this CPU.
const HostBase kHost{"avx2",
                     "fp32 N T 5 301 20 batch=2 epilogue=y=gelu(acc+b[n]);"
                     "s[batch,m,n/32]=max(abs(y))/3;d=y/s[batch,m,n/32]+sum[m,n/2](y)-"
                     "even(y)*odd(y+n)+max[m,n/128](y*n)",
                     HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 2, .kc = 16, .mc = 6, .nc = 32}};
const HostBase kHostShared{
    "avx2",
    "fp32 N T 13 45 20 epilogue=z[m,n/2]=even(acc)*(odd(acc)+3);t[n/8,m]=max(acc);"
    "d=acc*c[m,n/2]+b[n/3]-r[m/4,n]+h[m/5]*p[n/2,m]+u[m,n/8]+(m*3+n)%5",
    HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 2, .kc = 16, .mc = 6, .nc = 32}};

const std::vector<const Base*> kBases{&kBlocks, &kRow,     &kPieces, &kShared,       &kHip,
                                      &kRolled, &kSwapped, &kSummed, &kSummedSwapped};

const std::vector<Mutant> kMutants{
    {&kBlocks, "exchanges a pair", "of(x[i + 1]) = of(x[i])", "of(x[i]) = of(x[i + 1])"},
    {&kBlocks, "takes in what lies past the last column",
     "first + i < left ? of(x[first + i]) : R::of_none()", "of(x[first + i])"},
    {&kBlocks, "forgets lanes of a block", "Lanes<1, kSize / kEach>",
     "Lanes<1, kSize / kEach / 2>"},
    {&kBlocks, "takes in lanes of the next block", "Lanes<1, kSize / kEach>",
     "Lanes<1, kSize / kEach * 2>"},
    {&kBlocks, "leaves one element as it was", "i < kEach; ++i) of(x[first + i]) = all",
     "i < kEach - 1; ++i) of(x[first + i]) = all"},
    {&kBlocks, "skips each second block of a lane", "first += kEach", "first += 2 * kEach"},
    {&kBlocks, "keeps all elements for the first column", "keep_for_blocks(row, column(i), x[i])",
     "keep_for_blocks(row, column(0), x[i])"},
    {&kBlocks, "accesses four at once at any address", "(alignof(Neighbours<T>) - 1)) == 0",
     "(alignof(Neighbours<T>) - 1)) >= 0"},
    {&kBlocks, "accesses four where there are less", "left >= kTogetherBehind &&", "left > 0 &&"},
    {&kBlocks, "stores past the last column", "if (i < left) to[i] =", "to[i] ="},
    {&kBlocks, "reduces half a block", "reduce_block<Largest, 32>", "reduce_block<Largest, 16>"},
    {&kBlocks, "sums what is to be the largest", "reduce_block<Largest, 32>",
     "reduce_block<Sum, 32>"},
    {&kBlocks, "reduces without magnitudes", "absolute(t0)", "t0"},
    {&kBlocks, "takes the odd one for the even one", "reduce_block<Even, 2>",
     "reduce_block<Odd, 2>"},
    {&kBlocks, "divides by what is not divided", "x.x0), t0)", "x.x0), x.x2)"},
    {&kBlocks, "stores two blocks at one place", "column / 32]", "column / 64]"},
    {&kBlocks, "stores the first block alone", "column % 32 == 0", "column == 0"},
    {&kBlocks, "stores blocks that are not there", "if (i < left) store_behind", "store_behind"},
    {&kBlocks, "stores blocks of a row as of a column", "row * out.ldy0 + column / 32",
     "column / 32 * out.ldy0 + row"},
    {&kBlocks, "gives all batches the first one's blocks",
     "static_cast<float*>(args.outputs[0]) + batch *",
     "static_cast<float*>(args.outputs[0]) + 0 *"},
    {&kBlocks, "gives all batches the first one's values",
     "static_cast<const Real*>(args.outputs[1]) + batch *",
     "static_cast<const Real*>(args.outputs[1]) + 0 *"},
    {&kRow, "reduces rows of the first batch", "reduce_row(args, batch, row)",
     "reduce_row(args, 0, row)"},
    {&kRow, "reads values of the first batch", "behind_of(args, batch)", "behind_of(args, 0)"},
    {&kRow, "begins with the first piece everywhere", "i64 piece = i64(team) * kPiece",
     "i64 piece = 0"},
    {&kRow, "takes blocks for lines", "i64(blockIdx.x) * blockDim.y + threadIdx.y",
     "i64(blockIdx.y)"},
    {&kRow, "stores blocks of a column as of a row", "column / 64 * out.ldy0 + row",
     "row * out.ldy0 + column / 64"},
    {&kRow, "reads the next one's element", "(column / 3)", "((column + 1) / 3)"},
    {&kRow, "reads of columns that are not there", "i < left ? first + i : columns - 1",
     "first + i"},
    {&kPieces, "computes the first piece again", "const i64 first = piece + own;",
     "const i64 first = i64(team) * kPiece + own;"},
    {&kPieces, "leaves out a second piece", "piece += i64(gridDim.y) * teams * kPiece",
     "piece += 2 * i64(gridDim.y) * teams * kPiece"},
    {&kRow, "leaves out the last piece", "piece < columns;", "piece + kPiece < columns;"},
    {&kShared, "reads the next pair's element", "ld0 + (column / 2)", "ld0 + ((column + 1) / 2)"},
    {&kShared, "reads another pair's element", "ld0 + (column / 2)", "ld0 + (column / 4)"},
    {&kShared, "reads a vector for each two", "x1[(column / 3)]", "x1[(column / 2)]"},
    {&kShared, "reads each row's own", "(row / 4) * out.ld2", "row * out.ld2"},
    {&kShared, "reads another row's value", "x3[(row / 5)]", "x3[(row / 4)]"},
    {&kShared, "reads a column-major operand by rows", "(column / 2) * out.ld4 + row",
     "row * out.ld4 + (column / 2)"},
    {&kShared, "exchanges what divides",
     "remainder(fused(Real(row), Value(Real(3.0)), Real(column)), Value(Real(5.0)))",
     "remainder(Value(Real(5.0)), fused(Real(row), Value(Real(3.0)), Real(column)))"},
    {&kShared, "leaves a remainder below 0", "rest < Real(0) ? rest + y : rest", "rest"},
    {&kShared, "takes the last pair for half of one", "if (i + 1 < left)", "if (i + 2 < left)"},
    {&kShared, "exchanges a pair's values", "x.x6, (x.x7 +", "x.x7, (x.x6 +"},
    {&kShared, "stores odd columns at their own place", "column / 2] = from_real(x.y0",
     "column] = from_real(x.y0"},
    {&kShared, "stores each second pair", "column % 2 == 0)\n    out.y0",
     "column % 4 == 0)\n    out.y0"},
    {&kHip, "reads lanes of another block", "(own + i) / kSize * kSize, kSize, 1",
     "own / kSize * kSize, kSize, 1"},
    {&kHip, "leaves out a block's last element", "kSize, kSize, 1", "kSize, kSize - 1, 1"},
    {&kHip, "reads one element of a block", "kSize, kSize, 1", "kSize, kSize, 0"},
    {&kHip, "takes in what lies past the last column", "i < left ? of(x[i]) : R::of_none()",
     "of(x[i])"},
    {&kHip, "reads before others have written", "__syncthreads();\n    for (int i = 0",
     "for (int i = 0"},
    {&kHip, "writes before others have read", "of(block);\n    }\n    __syncthreads();",
     "of(block);\n    }"},
    {&kHip, "keeps the product for what is made of it", "x.y1 = gelu_tanh(acc + x.x0);",
     "x.y1 = acc;"},
    {&kHip, "stores the first block alone", "column % 32 == 0", "column == 0"},
    {&kHip, "gives all batches the first one's blocks",
     "static_cast<float*>(args.outputs[0]) + batch *",
     "static_cast<float*>(args.outputs[0]) + 0 *"},
    {&kRolled, "takes what lies past the last column for its neighbour", "second ? y.r1 : x.r1",
     "y.r1"},
    {&kRolled, "exchanges a pair", "y.r0 = x.r0;", "x.r0 = y.r0;"},
    {&kRolled, "takes a pair for whole that is not", "/ 4 * 8 + 1 < out.columns",
     "/ 4 * 8 < out.columns"},
    {&kRolled, "takes the next pair's", "take_from_neighbour(extras[e], extras[e + 1]",
     "take_from_neighbour(extras[e], extras[e ^ 3]"},
    {&kRolled, "shows the product", "x.r0 = t0;", "x.r0 = acc;"},
    {&kRolled, "shows the first element's", "show_to_neighbour(out, real_of(sums[i + e])",
     "show_to_neighbour(out, real_of(sums[i])"},
    {&kRolled, "loads for one turn", "loaded.words[turn]", "loaded.words[0]"},
    {&kRolled, "loads one turn's", "at, turn, thread & 31", "at, 0, thread & 31"},
    {&kRolled, "tells even from odd by row", "column & 1", "row & 1"},
    {&kRolled, "forgets that a pair shares", "w.next1 = w.x1", "w.next1 = 0", 1},
    {&kRolled, "reads another pair's element",
     "w.x2 = bits_if(out.x2 + row * out.ld2 + (column / 2)",
     "w.x2 = bits_if(out.x2 + row * out.ld2 + (column / 4)", 1},
    {&kRolled, "stores two pairs at one place", "column / 2] = from_real(x.y0",
     "column / 4] = from_real(x.y0"},
    {&kSwapped, "exchanges a pair", "apart, odd)", "apart, !odd)"},
    {&kSwapped, "takes what lies past the last column for its neighbour", "!odd && second", "!odd"},
    {&kSwapped, "takes a pair for whole that is not", "* 4 + 1 < out.columns", "* 4 < out.columns"},
    {&kSwapped, "takes another lane's", "take_from_lane(extras[e], 4,",
     "take_from_lane(extras[e], 8,"},
    {&kSwapped, "takes another bit for the column's last", "threadIdx.x & 4", "threadIdx.x & 8"},
    {&kSwapped, "tells even from odd by row", "column & 1", "row & 1"},
    {&kSwapped, "reads the row before", "out.x1 + (row + kDown) * out.ld1",
     "out.x1 + row * out.ld1"},
    {&kSwapped, "reads the row before at an edge", "out.x1 + (row + kDown) * out.ld1",
     "out.x1 + row * out.ld1", 1},
    {&kSwapped, "stores two pairs at one place", "column / 2] = from_real(x.y0",
     "column / 4] = from_real(x.y0", 1},
    {&kSwapped, "loads for one turn", "loaded.words[turn]", "loaded.words[0]"},
    {&kSummed, "exchanges a pair", "take_from_neighbour(x[i], x[i + 1]",
     "take_from_neighbour(x[i + 1], x[i]"},
    {&kSummed, "takes a pair for whole that is not", "right + 1 < out.columns",
     "right < out.columns"},
    {&kSummed, "leaves out the second row", "i < 4; i += 2)", "i < 4; i += 4)"},
    {&kSummed, "shows the first sum", "show_to_neighbour(out, v[i]", "show_to_neighbour(out, v[0]"},
    {&kSummed, "takes both for one column", ": right + (i & 1); };", ": right; };"},
    {&kSummed, "takes both for one row", ": left + (i & 2) * 4; };", ": left; };"},
    {&kSummed, "reads another column's operands", "extras_at(out, row(i), column(i))",
     "extras_at(out, row(i), column(0))"},
    {&kSummed, "stores past D", "if (!there(i)) continue;", ""},
    {&kSummedSwapped, "exchanges a pair", "apart, odd)", "apart, !odd)"},
    {&kSummedSwapped, "takes another lane's", "take_from_lane(x[i], 4,", "take_from_lane(x[i], 8,"},
    {&kSummedSwapped, "takes another bit for the column's last", "threadIdx.x & 4",
     "threadIdx.x & 8"},
    {&kSummedSwapped, "takes a pair for whole that is not", "* 4 + 1 < out.columns",
     "* 4 < out.columns"},
    {&kSummedSwapped, "takes both for one row", "kSwap ? right + (i & 1)", "kSwap ? right"},
    {&kSummedSwapped, "takes both for one column", "kSwap ? left + (i & 2) * 4", "kSwap ? left"},
    {&kSummedSwapped, "shows the product", "x.r1 = t0;", "x.r1 = acc;"},
};

/// Compiled for this CPU, so none reaches beyond operands and workspace. Done wherever `from` is.
const std::vector<HostMutant> kHostMutants{
    {&kHost, "takes each block for a whole one", "count - first < kSize ? count - first : kSize",
     "kSize"},
    {&kHost, "leaves one element as it was", "i < here; ++i) values[first + i] = all",
     "i < here - 1; ++i) values[first + i] = all"},
    {&kHost, "takes the odd one for the even one", "values[i + 1] = values[i]",
     "values[i] = values[i + 1]"},
    {&kHost, "takes the even one for the odd one", "values[i] = values[i + 1]",
     "values[i + 1] = values[i]"},
    {&kHost, "takes what lies past the last column for its neighbour",
     "i + 1 < count; i += 2) values[i] =", "i < count; i += 2) values[i] ="},
    {&kHost, "keeps the last ones at the first place",
     "keep_for_blocks<L>(out, row, first + at, count - at, at,",
     "keep_for_blocks<L>(out, row, first + at, count - at, 0,"},
    {&kHost, "makes the last ones of the first one's",
     "store_behind<L>(out, row, first + at, at, blocks, count",
     "store_behind<L>(out, row, first + at, 0, blocks, count"},
    {&kHost, "keeps vectors at the first place", "keep_for_blocks<L>(out, row, first + at, L, at,",
     "keep_for_blocks<L>(out, row, first + at, L, 0,"},
    {&kHost, "reads of the first column", "keep_for_blocks<L>(out, row, first + at, L,",
     "keep_for_blocks<L>(out, row, first, L,"},
    {&kHost, "begins amid blocks", "first += kMostOfBlocks", "first += kMostOfBlocks / 2"},
    {&kHost, "leaves out the last block", "reduce_all_blocks(blocks, count)",
     "reduce_all_blocks(blocks, count / 32 * 32)"},
    {&kHost, "reduces half a block", "BlocksOf<Largest, 32>", "BlocksOf<Largest, 16>"},
    {&kHost, "sums what is to be the largest", "BlocksOf<Largest, 32>", "BlocksOf<Sum, 32>"},
    {&kHost, "reduces without magnitudes", "absolute(t0)", "t0"},
    {&kHost, "stores two blocks at one place", "store_shared<L, 32>", "store_shared<L, 64>"},
    {&kHost, "gives all batches the first one's blocks", "(args.outputs[0]) + batch *",
     "(args.outputs[0]) + 0 *"},
    {&kHostShared, "takes the first half twice", "(I / 2)...", "(I % (L / 2))..."},
    {&kHostShared, "reads another pair's elements", "line + first / 2, L / 2",
     "line + first / 4, L / 2"},
    {&kHostShared, "reads the first element for all", "line + (first + i) / kShared * stride",
     "line + first / kShared * stride"},
    {&kHostShared, "reads one for all blocks", "same<L>(line + first / kShared * stride)",
     "same<L>(line)"},
    {&kHostShared, "reads a column as a row", "out.x4 + row, out.ld4,", "out.x4 + row, 1,"},
    {&kHostShared, "reads each pair's own", "shared<L, 2>(out.x0", "shared<L, 4>(out.x0"},
    {&kHostShared, "reads another row's", "(row / 4)", "(row / 5)"},
    {&kHostShared, "stores all at the first place", "[(first + i) / kShared * stride]",
     "[first / kShared * stride]"},
    {&kHostShared, "stores a column as a row", "store_shared<L, 8>(out.y1 + row, out.ldy1,",
     "store_shared<L, 8>(out.y1 + row, 1,"},
    {&kHostShared, "stores each second pair", "% kShared == 0)", "% (2 * kShared) == 0)"},
    {&kHostShared, "exchanges a pair's values", "x7 * (x8 +", "x8 * (x7 +"},
    {&kHostShared, "rounds a quotient", "__builtin_elementwise_floor(x / y)",
     "__builtin_elementwise_roundeven(x / y)"},
    {&kHostShared, "divides by another number", "Value(Real(5.0)))", "Value(Real(6.0)))"},
};

TEST(BlockMutants, OfThisCpuAreCaught) { test::expect_caught_on_host(kHostMutants); }

TEST(BlockMutants, UnchangedKernelsOfThisCpuAreRight) {
  const std::vector<const HostBase*> bases{&kHost, &kHostShared};
  test::expect_right_on_host(bases);
}

TEST(BlockMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(BlockMutants, UnchangedKernelsAreClean) { test::expect_clean(kBases); }

}  // namespace kiln::block_mutants_test
