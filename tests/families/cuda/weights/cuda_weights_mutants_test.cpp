// The planted bugs of the family of weights: dropped waits, wrong stages, codes, scales and edges.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/weights/config.h"
#include "support/mutants.h"

namespace kiln::cuda_weights_mutants_test {

using test::Base;
using test::Mutant;

/// A ring of copies, signed codes, a group a chunk, ragged rows and columns; the last stage lies
/// where sums pass through.
const Base kRing{"ring", "sm_80",
                 "bf16_int4 N T 21 75 512 group=128 lda=520 ldb=544 ldc=80 ldd=80 align=16",
                 CudaWeights{.tile_n = 64, .tile_m = 16, .warps = 2, .stages = 3}};
/// Several chunks a stage and groups a chunk, integer zero points, words that are copied byte by
/// byte.
const Base kZeros{"zeros", "sm_80", "fp16_uint4 N T 9 37 352 group=32 zero=int scale_type=bf16",
                  CudaWeights{.tile_n = 32, .tile_m = 16, .warps = 2, .stages = 3}};
/// One scale a column, zero points between codes, k that ends within a word.
const Base kColumns{
    "columns", "sm_80", "bf16_int8 N T 13 40 301 group=k zero=float lda=310",
    CudaWeights{.tile_n = 32, .tile_m = 16, .block_k = 64, .warps = 2, .stages = 3}};
/// Split-K behind another grid.
const Base kParts{
    "parts", "sm_90a", "fp16_int8 N T 10 70 640 group=64 zero=int align=4 ldc=72 ldd=72",
    CudaWeights{.tile_n = 64, .tile_m = 8, .block_k = 64, .warps = 4, .stages = 4, .splits = 3}};
/// Floats in squares of a batch, the second of which has few columns.
const Base kFloats{"floats", "sm_80", "bf16_fp8 N T 11 150 384 batch=2 group=128x128 align=16",
                   CudaWeights{.tile_n = 64, .tile_m = 16, .warps = 2, .stages = 3}};
/// Codes of four bits in blocks of 32, several a chunk.
const Base kMx{"mx", "sm_80", "bf16_fp4 N T 9 37 352 group=mx32 batch=2 align=16",
               CudaWeights{.tile_n = 32, .tile_m = 16, .warps = 2, .stages = 3}};
/// Factors that are stacked; a copy's lines lie within those of a factor. D has an odd number of
/// columns.
const Base kGate{"gate", "sm_80",
                 "bf16_int4 N T 21 75 512 batch=2 group=128 gate=silu epilogue=bias_col align=16",
                 CudaWeights{.tile_n = 128, .tile_m = 16, .warps = 2, .stages = 3}};
/// Columns that alternate, a copy that spans both factors of several warps, split-K.
const Base kAlternating{
    "alternating", "sm_90a",
    "fp16_uint4 N T 9 101 640 group=32 zero=int gate=gelu:interleaved epilogue=residual align=8",
    CudaWeights{.tile_n = 64, .tile_m = 16, .block_k = 64, .warps = 4, .stages = 3, .splits = 2}};
/// Squares of stacked factors, of which one begins within the first and ends within the second.
const Base kSquares{"squares", "sm_80",
                    "bf16_fp8 N T 5 70 384 batch=2 group=128x128 gate=relu align=16",
                    CudaWeights{.tile_n = 64, .tile_m = 8, .warps = 2, .stages = 3}};
/// Groups of rows of one matrix, several tiles of some.
const Base kGrouped{"grouped", "sm_90a",
                    "bf16_uint4 N T 90 70 512 groups=5 grouped=rows group=128 zero=int "
                    "epilogue=bias_col align=16",
                    CudaWeights{.tile_n = 64, .tile_m = 8, .warps = 2, .stages = 3}};
/// More groups than a warp has lanes, so several warps read the list.
const Base kManyGroups{
    "many groups", "sm_90a",
    "bf16_uint4 N T 90 70 128 groups=40 grouped=rows group=128 zero=int align=16",
    CudaWeights{.tile_n = 64, .tile_m = 8, .warps = 2, .stages = 3}};
/// Rows of A and D by index.
const Base kIndexed{"indexed", "sm_80",
                    "bf16_int4 N T 90 70 512 groups=5 grouped=rows rows_of_a=60 rows_of_d=130 "
                    "group=128 align=16 gather=rows scatter=rows",
                    CudaWeights{.tile_n = 64, .tile_m = 16, .warps = 2, .stages = 3}};
/// Groups with rows of their own, squares of scales, a gate.
const Base kMasked{"masked", "sm_80",
                   "bf16_fp8 N T 30 70 384 groups=4 grouped=masked group=128x128 gate=silu "
                   "epilogue=bias_row+residual align=16",
                   CudaWeights{.tile_n = 64, .tile_m = 16, .warps = 2, .stages = 3}};

const std::vector<Mutant> kMutants{
    // Groups.
    {&kIndexed, "reads the row behind the one that is listed", "row_of_a(args, row0 + line + down)",
     "1 + row_of_a(args, row0 + line + down)"},
    {&kIndexed, "looks up the first copy's row alone", "row_of_a(args, row0 + line + down)",
     "row_of_a(args, row0 + line)"},
    {&kIndexed, "reads the rows of another group",
     "static_cast<const int*>(args.index_a) + first_row;",
     "static_cast<const int*>(args.index_a);"},
    {&kIndexed, "writes rows in order", "row_of_d(out, row) + column",
     "out.d + row * out.ldd + column"},
    {&kGrouped, "reads the first group's rows", "first_row * step_a", "0 * step_a"},
    {&kGrouped, "steps from row to row by an element", "work.rows, args.lda)", "work.rows, 1)"},
    {&kGrouped, "reads the first group's codes", "work.batch * args.stride_b", "0 * args.stride_b"},
    {&kGrouped, "reads the first group's scales", "int(batch) * int(args.n) + column", "column"},
    {&kGrouped, "counts tiles down", "scheduler_of(args).lefts", "scheduler_of(args).rights"},
    {&kGrouped, "computes rows of the next group", "own.m = rows;", "own.m = args.m - first_row;"},
    {&kGrouped, "takes rows for columns", "const int lefts = this->lefts, rights = of_rows;",
     "const int lefts = of_rows, rights = this->rights;"},
    {&kGrouped, "works where no group has rows", "  if (!any) return;\n", "\n"},
    {&kGrouped, "reads the list before the grid in front has ended",
     "  wait_for_previous_grid();\n", "\n"},
    {&kManyGroups, "counts before the list is there",
     "kThreads);\n  __syncthreads();\n  if (threadIdx.x < 32)",
     "kThreads);\n  if (threadIdx.x < 32)"},
    {&kMasked, "reads the first group's squares", "int(batch) * lines", "0 * lines"},
    {&kMasked, "forgets the first row of a group's bias", "group * args.m;", "0;"},
    {&kMasked, "computes rows that do not count", "own.m = rows;", "own.m = args.m;"},
    // The ring.
    {&kRing, "does not wait for copies", "    cp_async_wait<kStages - 2>();\n", "\n"},
    {&kRing, "waits for one group too few", "    cp_async_wait<kStages - 2>();\n",
     "    cp_async_wait<kStages - 1>();\n"},
    {&kRing, "does not wait for the others' copies", "    __syncthreads();\n    copy_next();\n",
     "    copy_next();\n"},
    {&kRing, "fills a stage before all have read it", "    __syncthreads();\n    copy_next();\n",
     "    copy_next();\n    __syncthreads();\n"},
    {&kRing, "forgets to commit", "    cp_async_commit();\n", "\n"},
    {&kRing, "fills the stage that is read", "u32 to = ring;", "u32 to = ring + kStageBytes;"},
    {&kRing, "reads the stage behind", "u32 stage = ring;", "u32 stage = ring + kStageBytes;"},
    {&kRing, "forgets the last stage", "for (int i = 0; i < count; ++i) {\n    cp_async",
     "for (int i = 0; i + 1 < count; ++i) {\n    cp_async"},
    {&kZeros, "multiplies the first chunk of a stage only", "of_chunk(stage, c)",
     "of_chunk(stage, 0)"},
    {&kParts, "starts before the grid in front has ended", "  wait_for_previous_grid();\n", "\n"},
    // Codes.
    {&kRing, "takes signed codes for unsigned ones", "kSignedCodes ? 0x00080008 : 0", "0"},
    {&kRing, "takes neighbouring codes for a pair", "codes >> i * 4", "codes >> i * 2"},
    {&kRing, "leaves A's elements in their order", "i % 2 == 0 ? 0x5410 : 0x7632", "0x5410"},
    {&kRing, "takes the first eight columns twice", "codes[s / kWordSteps * 2 + e % 2]",
     "codes[s / kWordSteps * 2]"},
    {&kRing, "takes the other half of k", "s % kWordSteps * 2 + e / 2,",
     "s % kWordSteps * 2 + 1 - e / 2,"},
    {&kZeros, "counts sixteenths as ones", "0xd400 | more << 4", "0xd400 | more"},
    {&kColumns, "forgets the sign", "0xc300c300", "0xc380c380"},
    {&kParts, "takes the upper bytes twice", "i == 0 ? 0x4140 : 0x4342", "0x4342"},
    {&kFloats, "spreads signs by an intrinsic that cannot",
     "signs_of_halves(magnitudes + 0x01000100)", "__byte_perm(magnitudes + 0x01000100, 0, 0xbb99)"},
    {&kFloats, "forgets the sign of a float", "0x80008000", "0x00000000"},
    {&kFloats, "moves a float's bits too far", "magnitudes >> 4", "magnitudes >> 5"},
    {&kFloats, "has another bias", "0x7b807b80", "0x7c007c00"},
    {&kFloats, "flushes denormals", "const u32 magnitudes = codes & 0x7f007f00;",
     "const u32 magnitudes =\n      (codes & 0x7800 ? codes & 0x7f00 : 0) | (codes & 0x7f000000);"},
    {&kFloats, "adds a NaN to the largest number", "magnitudes + 0x01000100",
     "magnitudes + 0x02000200"},
    {&kFloats, "takes the upper floats twice", "i == 0 ? 0x1404 : 0x3424", "0x3424"},
    {&kMx, "forgets the sign of a float of four bits", "codes, 0x80008000, 0x7e807e80",
     "codes, 0x00000000, 0x7e807e80"},
    {&kMx, "moves a float's bits too far", "codes >> 6", "codes >> 7"},
    {&kMx, "has another bias", "0x7e807e80", "0x7e007e00"},
    {&kMx, "flushes the denormal", "codes >> 6 & 0x01c001c0", "codes >> 6 & 0x01800180"},
    {&kMx, "leaves a neighbour's bits beside a float", "0x01c001c0", "0x03c003c0"},
    {&kMx, "takes neighbouring floats for a pair", "12 - i * 4", "12 - i * 2"},
    {&kMx, "has another bias of scales", "u32(x.bits) << 23", "u32(x.bits + 1) << 23"},
    {&kMx, "forgets the batch of powers of two", "int(batch) * int(args.n) + column", "column"},
    // Layouts.
    {&kRing, "reads codes where they were not put",
     "exchanged_byte(column, lane / 16 * 16, kBitsB, 4, kShiftB)", "lane / 16 * 16"},
    {&kRing, "reads A where it was not put",
     "exchanged_byte(row, lane % 4 * kPairs * 4, kBitsA, kBaseA, 0)", "lane % 4 * kPairs * 4"},
    {&kRing, "multiplies the first warp's columns", "Reader::at(own, lane)", "Reader::at(0, lane)"},
    // Scales and zero points.
    {&kRing, "scales by the neighbour's scale", "factors.scale[i * 2 + e / 2][group] * parts",
     "factors.scale[i * 2][group] * parts"},
    {&kRing, "keeps the scales of the chunk before", "fetch(fetched, ++chunk)",
     "fetch(fetched, chunk++)"},
    {&kRing, "adds a group twice", "      Acc parts[kTilesM][kAtOnce][4] = {};\n",
     "      static thread_local Acc parts[kTilesM][kAtOnce][4];\n"},
    {&kZeros, "takes the other zero point of a byte", "at % 2 * 4 & 15", "(at + 1) % 2 * 4 & 15"},
    {&kColumns, "rounds zero points",
     "        sums[i][j][e] -= factors.rest[i * 2 + e / 2][0] * left_sums[j][e % 2];\n", "\n"},
    {&kColumns, "takes zero points off another row", "left_sums[j][e % 2]", "left_sums[j][e / 2]"},
    {&kParts, "scales every part as the first", "int chunk = begin * kChunks;", "int chunk = 0;"},
    {&kFloats, "scales a square by the one beside", "column / kGroupColumns",
     "(column + 1) / kGroupColumns"},
    {&kFloats, "forgets the batch of squares", "int(batch) * lines", "0 * lines"},
    // Edges.
    {&kColumns, "copies k beyond the last", "bytes -= Pitch;", ";"},
    {&kRing, "copies lines beyond the last", "down < lines ? there : 0", "there"},
    {&kRing, "stores a row beyond the last", "row < out.rows && column",
     "row <= out.rows && column"},
    {&kRing, "stores a column beyond the last", "if (e + s < columns)", "if (e + s <= columns)", 1},
    // Factors of a gate.
    {&kGate, "copies one factor twice", "line % kWarpLines < kHalf ? 0 : other",
     "line % kWarpLines < kHalf ? 0 : 0"},
    {&kGate, "counts lines for columns", "line / kWarpLines * kHalf + line % kHalf",
     "line / kWarpLines * kWarpLines + line % kHalf"},
    {&kGate, "copies columns beyond the last", "column_of(down) < lines ? there : 0", "there"},
    {&kGate, "scales both factors by the first one's scales",
     "line < kHalf ? column : int(args.n) + column", "column"},
    {&kGate, "counts half of a batch's scales", "int(batch) * columns", "int(batch) * int(args.n)"},
    {&kGate, "scales by columns where B's lines are", "int(column0) + own_d", "int(column0) + own"},
    {&kGate, "begins a tile at B's line", "i64(work.left) * kColumns", "i64(work.left) * kTileN"},
    {&kGate, "computes half of the tiles", "(int(args.n) + kColumns - 1) / kColumns",
     "(int(args.n) + kTileN - 1) / kTileN"},
    {&kGate, "stores where B's lines are", "row0, column0 + own_d,", "row0, column0 + own,"},
    {&kGate, "meets one factor twice", "from + (e + kWarpN / 2)", "from + (e + 0)"},
    {&kGate, "stores half of a row", "kWarpN / 2 / kTogether", "kWarpN / 4 / kTogether"},
    {&kGate, "adds the first factor's bias to both", "return out.columns + column;",
     "return column;"},
    {&kAlternating, "steps from line to line", "c.column_pitch = 2 * pitch;",
     "c.column_pitch = pitch;"},
    {&kAlternating, "copies the factor beside another column", "c.other = pitch;",
     "c.other = 3 * pitch;"},
    {&kAlternating, "scales by the column of D", "return 2 * column + line / kHalf;",
     "return column;"},
    {&kSquares, "counts half of a batch's squares", "(columns + kGroupColumns - 1)",
     "(int(args.n) + kGroupColumns - 1)"},
    {&kSquares, "begins the second factor's squares anew", "int(args.n) + column;",
     "128 + column;"},
    // Sums on their way to D.
    {&kRing, "puts sums down where others still read", "  __syncthreads();\n  store_sums(",
     "  store_sums("},
    {&kRing, "reads sums before they are there", "    __syncwarp();\n", "\n"},
    {&kRing, "puts sums down before the last are read", "    __syncwarp();\n", "\n", 1},
    {&kRing, "puts two rows in one place", "(lane % 4 * 2 + e % 2) * kRowPitch",
     "lane % 4 * 2 * kRowPitch"},
    {&kRing, "gives all warps one place", "u32(warp * 8 * kRowPitch)",
     "u32(warp / 2 * 8 * kRowPitch)"},
};

TEST(CudaWeightsMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(CudaWeightsMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kRing, &kZeros, &kColumns, &kParts, &kFloats, &kMx, &kGate, &kAlternating,
                      &kSquares, &kGrouped, &kIndexed, &kMasked});
}

}  // namespace kiln::cuda_weights_mutants_test
