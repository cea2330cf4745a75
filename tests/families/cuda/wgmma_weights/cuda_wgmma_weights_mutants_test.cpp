// Weights by Hopper's warpgroup instruction, without a GPU: mistakes in what is decoded, where it
// is read, when it is handed over and how it is scaled, planted one at a time.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/wgmma_weights/config.h"
#include "support/mutants.h"

namespace kiln::cuda_wgmma_weights_mutants_test {

using test::Base;
using test::Mutant;

/// Signed codes, a group a stage, ragged rows and columns, two warpgroups, several tiles a block.
const Base kGroups{"groups", "sm_90a",
                   "bf16_int4 N T 75 200 640 group=128 lda=648 ldb=672 ldc=208 ldd=208 align=16",
                   CudaWgmmaWeights{.tile_m = 40, .warpgroups = 2, .block_k = 128, .stages = 2}};
/// Several groups a stage, integer zero points, codes that stay in their bytes.
const Base kZeros{
    "zeros", "sm_90a",
    "fp16_uint4 N T 30 100 416 group=32 zero=int scale_type=bf16 ldc=104 ldd=104 align=16",
    CudaWgmmaWeights{.tile_m = 16, .warpgroups = 1, .block_k = 64, .stages = 3}};
/// One scale a column, k that ends within a step, codes of eight bits.
const Base kColumns{
    "columns", "sm_90a",
    "bf16_int8 N T 21 90 301 group=k zero=int lda=304 ldb=304 ldc=96 ldd=96 align=16",
    CudaWgmmaWeights{.tile_m = 24, .warpgroups = 2, .block_k = 64, .stages = 2}};
/// Split-K, halves of 8-bit codes.
const Base kParts{"parts", "sm_90a", "fp16_int8 N T 20 70 640 group=64 ldc=72 ldd=72 align=16",
                  CudaWgmmaWeights{.tile_m = 24,
                                   .warpgroups = 1,
                                   .block_k = 128,
                                   .stages = 2,
                                   .sharing = Sharing::split,
                                   .splits = 3}};
/// Floats in squares.
const Base kFloats{"floats", "sm_90a",
                   "bf16_fp8 N T 22 190 384 group=128x128 ldc=192 ldd=192 align=16",
                   CudaWgmmaWeights{.tile_m = 24, .warpgroups = 1, .block_k = 128, .stages = 2}};
/// Codes of four bits in blocks of 32, several a stage.
const Base kMx{"mx", "sm_90a", "fp16_fp4 N T 22 90 416 group=mx32 ldc=96 ldd=96 align=16",
               CudaWgmmaWeights{.tile_m = 24, .warpgroups = 1, .block_k = 64, .stages = 2}};
/// Factors that are stacked, of a batch; several tiles a block.
const Base kGate{"gate", "sm_90a",
                 "bf16_uint4 N T 45 150 640 batch=2 group=128 zero=int gate=silu epilogue=bias_col "
                 "align=16",
                 CudaWgmmaWeights{.tile_m = 24, .warpgroups = 2, .block_k = 128, .stages = 2}};
/// Columns that alternate, one scale each, D from shared memory.
const Base kAlternating{
    "alternating", "sm_90a",
    "fp16_int8 N T 22 90 304 group=k gate=gelu:interleaved epilogue=residual ldd=96 align=16",
    CudaWgmmaWeights{.tile_m = 24, .warpgroups = 1, .block_k = 64, .stages = 2}};
/// Squares that hold columns of both factors, split-K added by a launch of its own.
const Base kSquares{"squares", "sm_90a", "bf16_fp8 N T 22 70 640 group=128x128 gate=relu align=16",
                    CudaWgmmaWeights{.tile_m = 24,
                                     .warpgroups = 1,
                                     .block_k = 128,
                                     .stages = 2,
                                     .sharing = Sharing::summed,
                                     .splits = 2}};

/// Weights that are rounded: turns of two stages, two groups a stage, scales of another type, zero
/// points between codes.
const Base kRounded{
    "rounded", "sm_90a",
    "bf16_uint4 N T 45 190 416 group=32 zero=float ldc=192 ldd=192 align=16 numerics=fast",
    CudaWgmmaWeights{.tile_m = 24,
                     .warpgroups = 2,
                     .block_k = 64,
                     .stages = 3,
                     .round_weights = true,
                     .turn = 2}};
/// The same of a gate, of floats, with split-K; a group is two stages.
const Base kRoundedGate{"rounded_gate", "sm_90a",
                        "fp16_fp8 N T 22 70 640 group=128 scale_type=fp16 gate=silu align=16 "
                        "numerics=fast",
                        CudaWgmmaWeights{.tile_m = 24,
                                         .warpgroups = 1,
                                         .block_k = 64,
                                         .stages = 4,
                                         .sharing = Sharing::split,
                                         .splits = 2,
                                         .round_weights = true,
                                         .turn = 2}};

/// Groups of rows of one matrix, D by rows through shared memory.
const Base kRows{"rows", "sm_90a",
                 "bf16_uint4 N T 90 150 384 groups=5 grouped=rows group=128 zero=int "
                 "epilogue=bias_col ldc=152 ldd=152 align=16",
                 CudaWgmmaWeights{.tile_m = 16, .warpgroups = 2, .block_k = 128, .stages = 2}};
/// Masked groups of a gate, squares, weights that are rounded.
const Base kMasked{
    "masked", "sm_90a",
    "bf16_fp8 N T 40 70 384 groups=4 grouped=masked group=128x128 gate=silu align=16 "
    "numerics=fast",
    CudaWgmmaWeights{
        .tile_m = 16, .warpgroups = 1, .block_k = 128, .stages = 2, .round_weights = true}};

const std::vector<Mutant> kMutants{
    // Groups of rows.
    {&kRows, "reads the first group's rows", "work.first_row + work.right * kRightTile, 0",
     "work.right * kRightTile, 0"},
    {&kRows, "reads the first group's codes", "work.left * kLeftTile, work.batch,\n",
     "work.left * kLeftTile, 0,\n"},
    {&kRows, "scales by the first group's scales", "Scaling::at(args, work.batch, column0",
     "Scaling::at(args, 0, column0"},
    {&kRows, "computes the first columns of a group alone",
     "  return (int(args.n) + kLeftTile - 1) / kLeftTile;\n", "  return 1;\n"},
    {&kMasked, "reads the first group's rows", "work.right * kRightTile, work.batch, kRightHint",
     "work.right * kRightTile, 0, kRightHint"},
    {&kMasked, "reads the first group's factors", "work.batch * 2 + unit % 2", "unit % 2"},
    {&kMasked, "scales by the first group's scales", "Scaling::at(args, work.batch, column0",
     "Scaling::at(args, 0, column0"},
    {&kMasked, "computes the first columns of a group alone",
     "  return (int(args.n) + kColumns - 1) / kColumns;\n", "  return 1;\n"},
    // Weights that are rounded.
    {&kRounded, "scales by the first group of a turn", "of_factor * 16 / kGroupK)", "0)"},
    {&kRounded, "scales the group's last step by the next one's", "of_factor * 16 / kGroupK)",
     "(of_factor + 1) * 16 / kGroupK % kGroups)"},
    {&kRounded, "keeps the scales of the stage before", "fetch(fetched, ++chunk)",
     "fetch(fetched, chunk++)", 1},
    {&kRounded, "keeps the first stage's scales",
     "    factors = scales.scaling.factors(fetched, chunk);\n", "\n"},
    {&kRounded, "scales the second stage as the first", "fetch(fetched, ++chunk)",
     "fetch(fetched, chunk++)"},
    {&kRounded, "scales both rows of a lane alike", "numbers, factors.scale[of][group]",
     "numbers, factors.scale[column][group]"},
    {&kRounded, "adds the zero point of the first row", "factors.rest[of][group]",
     "factors.rest[column][group]"},
    {&kRounded, "takes one zero point's whole part for both rows", "factors.offset[of][group]",
     "factors.offset[column][group]"},
    {&kRounded, "adds what it should subtract", "(float(whole) - zero)", "(zero - float(whole))"},
    {&kRounded, "does not scale what the zero point is beyond a code",
     " * to_real(TypeA{u16(f.scale[c][g])})", ""},
    {&kRounded, "scales one of two weights", "pack_two(scale, scale, TypeA{})",
     "pack_two(scale, 1.0f, TypeA{})"},
    {&kRounded, "starts anew in each turn", "i | of_factor)", "of_factor)"},
    {&kRounded, "decodes over words that are read", "u32(&left)[4] = words[at % kFlight];",
     "u32(&left)[4] = words[0];"},
    {&kRoundedGate, "decodes over words of one instruction too many", "wgmma_wait<kFlight - 1>()",
     "wgmma_wait<kFlight>()"},
    {&kRounded, "hands a stage back before it is multiplied",
     "    wgmma_wait<0>();\n    pin_all(sums);\n    release",
     "    wgmma_wait<1>();\n    pin_all(sums);\n    release"},
    {&kRounded, "hands the first stage of a turn back before it is multiplied",
     "at - kFlight - (kAll - kFactorSteps)", "at - (kAll - kFactorSteps)"},
    {&kRoundedGate, "hands the second stage back for the first", "place[ended / kSteps] * 8",
     "place[1] * 8"},
    {&kRounded, "copies the first half of k", "work.count * kTurn", "work.count"},
    {&kRoundedGate, "copies a part's stages from within another's", "work.begin * kTurn + i",
     "work.begin + i"},
    {&kRounded, "reads the next stage's codes before they are there",
     "        mbarrier_wait(shared.full + turn.stage * 8, turn.parity);\n", "\n"},
    {&kRounded, "decodes the first codes again", "    mine.decode(words[1], codes[0], 1, factors",
     "    mine.decode(words[1], codes[0], 0, factors"},
    {&kRounded, "decodes the next stage's first words over others",
     "    wgmma_wait<kFlight - 1>();\n    mine", "    mine"},
    {&kRounded, "decodes the next stage's second words over others",
     "    wgmma_wait<kFlight - 2>();\n    mine", "    mine"},
    {&kRoundedGate, "scales both factors alike", "factors, f * 2,\n", "factors, 0,\n"},
    {&kRoundedGate, "multiplies one factor twice", "next / kFactorSteps * kFactorBytes", "0"},
    {&kRoundedGate, "adds both factors up", "wgmma_m64(sums[f], left", "wgmma_m64(sums[0], left"},
    {&kRoundedGate, "has the first group's codes for both factors", "next % kSteps / kReadSteps);",
     "0);"},
    {&kRoundedGate, "multiplies the second factor by what follows A",
     "(step / 4 * kRightTile * 128 + step", "(at / 4 * kRightTile * 128 + step"},
    {&kRoundedGate, "scales every part as the first", "int chunk = scales.begin;",
     "int chunk = 0;"},
    {&kRoundedGate, "adds one to every weight", "0x80008000;  // which", "0x3c003c00;  // which"},
    // Factors of a gate.
    {&kGate, "copies one factor twice", "work.batch * 2 + unit % 2", "work.batch * 2"},
    {&kGate, "copies the first warpgroup's columns twice", "kColumns + unit / 2 * 64", "kColumns"},
    {&kGate, "computes half of the tiles", "(int(args.n) + kColumns - 1) / kColumns",
     "(int(args.n) + kLeftTile - 1) / kLeftTile"},
    {&kGate, "multiplies one factor twice", "stage + f * kFactorBytes", "stage + 0 * kFactorBytes"},
    {&kGate, "scales by columns where B's lines are", "int(row_offset) / 2 + thread",
     "int(row_offset) + thread"},
    {&kGate, "scales a tile by B's lines", "work.left * kColumns + int(row_offset)",
     "work.left * kLeftTile + int(row_offset)"},
    {&kGate, "scales both factors alike", "factors.scale[f * 2 + r / 2 % 2][group] * part",
     "factors.scale[r / 2 % 2][group] * part"},
    {&kGate, "takes one factor's zero points", "factors.offset[f * 2][group]",
     "factors.offset[0][group]"},
    {&kGate, "counts half of a batch's scales", "int(batch) * columns", "int(batch) * int(args.n)"},
    {&kGate, "scales both factors by the first one's scales",
     "line < kHalf ? column : int(args.n) + column", "column"},
    {&kAlternating, "scales by the column of D", "return 2 * column + line / kHalf;",
     "return column;"},
    {&kAlternating, "scales both factors alike", "*= factors.scale[f * 2 + r / 2 % 2][0]",
     "*= factors.scale[r / 2 % 2][0]"},
    {&kSquares, "begins the second factor's squares anew", "int(args.n) + column;",
     "128 + column;"},
    // The ring.
    {&kGroups, "reads before the copies are there",
     "    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);\n    const Factors",
     "    const Factors"},
    {&kGroups, "copies before all have read",
     "mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);\n", "\n"},
    {&kGroups, "hands a stage back before it is multiplied", "    multiply_stage(sums, mine",
     "    release(shared.empty + turn.stage * 8, lane);\n    multiply_stage(sums, mine"},
    {&kGroups, "expects fewer bytes", "mbarrier_expect(barrier, kStageBytes)",
     "mbarrier_expect(barrier, kStageBytes - 16)"},
    {&kGroups, "copies the first 64 of k twice", "stage * kDepth + line * 64", "stage * kDepth"},
    {&kGroups, "copies the codes of the first stage", "left, barrier, stage * kCodePitch",
     "left, barrier, work.begin * kCodePitch"},
    {&kGroups, "starts before the grid in front has ended",
     "  wait_for_previous_grid();\n  let_next", "  let_next"},
    // Words that instructions read.
    {&kGroups, "decodes over words that are read", "u32(&left)[4] = words[step % kFlight];",
     "u32(&left)[4] = words[0];"},
    {&kGroups, "decodes over words of one instruction too many", "wgmma_wait<kFlight - 1>()",
     "wgmma_wait<kFlight>()"},
    {&kGroups, "does not wait for the first words", "if (step % kChain >= kFlight)",
     "if (step % kChain > kFlight)"},
    {&kGroups, "adds sums that are not there yet", "    wgmma_wait<0>();\n    pin_all(part);",
     "    wgmma_wait<1>();\n    pin_all(part);"},
    {&kGroups, "hands registers over without a fence", "    wgmma_fence();\n", "\n"},
    {&kGroups, "waits for what was not committed", "    wgmma_commit();\n", "\n"},
    {&kGroups, "adds a group to the one before", "before = step % kChain;", "before = 1;"},
    {&kZeros, "starts anew within a group", "before = step % kChain;", "before = 0;"},
    {&kColumns, "starts anew in each turn", "before = accumulate | step;", "before = step;"},
    {&kGroups, "multiplies the first 64 of k twice", "(step / 4 * kRightTile * 128 + step",
     "(step"},
    {&kGroups, "multiplies one step of A", "step % 4 * 32) >> 4)", "0) >> 4)"},
    // Codes.
    {&kGroups, "takes signed codes for unsigned ones", "kSignedCodes ? 0x00080008 : 0", "0"},
    {&kGroups, "takes the first code twice", "taken * 0x1001", "taken * 0x10001"},
    {&kGroups, "takes the whole word's codes", "0x4440 | place", "0x4440"},
    {&kZeros, "counts sixteenths as ones", "0x2c003c00", "0x3c003c00"},
    {&kZeros, "has one offset for both codes",
     "__byte_perm(offset.pair, offset.pair_of_16, 0x7610)", "offset.pair"},
    {&kColumns, "forgets the sign", "0xc300c300", "0xc380c380"},
    {&kParts, "takes signed bytes for unsigned ones", "0x64806480", "0x64006400"},
    {&kParts, "takes one byte twice", "place * 2 | (place * 2 + 1) << 8", "place * 2 | place << 9"},
    {&kGroups, "takes the second row's half of k", "(step * 2 + i / 2)", "(step * 2 + i % 2)"},
    {&kGroups, "takes the first row twice", "codes[i % 2] +", "codes[0] +"},
    {&kGroups, "fetches no codes but the first", "stage, read + 1)", "stage, 0)"},
    {&kGroups, "reads codes where they were not put",
     "swizzled_byte(row, 0, kCodePitch) - lane.line", "0"},
    {&kGroups, "reads the first warpgroup's codes",
     "int(row_offset) + thread / 32 * 16 + thread % 32", "thread / 32 * 16 + thread % 32"},
    {&kFloats, "forgets the sign of a float", "0x80008000", "0x00000000"},
    {&kFloats, "has another bias", "0x7b807b80", "0x7b007b00"},
    {&kFloats, "takes one float twice", "(place * 2 + 1) << 12", "place << 13"},
    {&kFloats, "takes floats from the wrong word", "place * 2 << 4 |", "place << 4 |"},
    {&kMx, "forgets the sign of a float of four bits", "codes, 0x80008000, 0x74007400",
     "codes, 0x00000000, 0x74007400"},
    {&kMx, "leaves the first float where it is", "0x01001000", "0x01000100"},
    {&kMx, "takes the second float's bits for the first one's", "0x01001000", "0x01000010"},
    {&kMx, "takes the first quad's byte", "0x4440 | place", "0x4440"},
    {&kMx, "has one scale for a stage", "u32(exists ? group : 0)", "0"},
    // Scales and zero points.
    {&kGroups, "scales by the neighbour's scale", "factors.scale[r / 2 % 2][group] * part",
     "factors.scale[0][group] * part"},
    {&kGroups, "keeps the scales of the stage before", "fetch(fetched, ++chunk)",
     "fetch(fetched, chunk++)"},
    {&kGroups, "scales by another warpgroup's scales", "int(row_offset) + thread / 32 * 16;",
     "thread / 32 * 16;"},
    {&kZeros, "takes one zero point for both columns",
     "const Offset& offset = i % 2 == 0 ? first : second;", "const Offset& offset = first;"},
    {&kZeros, "has the first group's zero points", "factors.offset[0][group]",
     "factors.offset[0][0]"},
    {&kColumns, "scales all columns alike", "*= factors.scale[r / 2 % 2][0]",
     "*= factors.scale[0][0]"},
    {&kParts, "scales every part as the first", "int chunk = scales.begin;", "int chunk = 0;"},
    {&kParts, "forgets what was summed before", "sums[0][r] += factors", "sums[0][r] = factors"},
};

TEST(CudaWgmmaWeightsMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(CudaWgmmaWeightsMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kGroups, &kZeros, &kColumns, &kParts, &kFloats, &kMx, &kGate, &kAlternating,
                      &kSquares, &kRounded, &kRoundedGate, &kRows, &kMasked});
}

}  // namespace kiln::cuda_wgmma_weights_mutants_test
