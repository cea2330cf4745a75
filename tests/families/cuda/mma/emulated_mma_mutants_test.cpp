// The planted bugs of the warp matrix family: dropped waits, wrong stages, fragments and edges.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/mma/config.h"
#include "support/mutants.h"

namespace kiln::emulated_mma_mutants_test {

using test::Base;
using test::Mutant;

/// A ring of copies, k-major operands, ragged at every side.
const Base kRing{"ring", "sm_80", "bf16 N T 71 75 200 lda=208 ldb=208 ldc=80 ldd=80 align=16",
                 CudaMma{.block_m = 64,
                         .block_n = 64,
                         .block_k = 32,
                         .warps_m = 2,
                         .warps_n = 2,
                         .stages = 3,
                         .bits_a = 2,
                         .shift_a = 1,
                         .bits_b = 2,
                         .shift_b = 1}};
/// Operands read ahead, doubles, rows along lines.
const Base kDoubles{"doubles", "sm_90a", "fp64 T N 71 75 77",
                    CudaMma{.block_m = 64,
                            .block_n = 64,
                            .block_k = 16,
                            .warps_m = 2,
                            .warps_n = 2,
                            .stages = 3,
                            .instruction_k = 8,
                            .bits_a = 2,
                            .base_a = 5,
                            .bits_b = 2,
                            .base_b = 5,
                            .ahead = true}};
/// 8-bit elements that are turned in registers.
const Base kBytes{"bytes", "sm_80", "u8s8 T N 71 70 200 lda=72 ldb=72 align=4",
                  CudaMma{.block_m = 64,
                          .block_n = 64,
                          .block_k = 64,
                          .warps_m = 2,
                          .warps_n = 2,
                          .stages = 3,
                          .instruction_k = 32,
                          .bits_a = 2,
                          .shift_a = 1,
                          .bits_b = 2,
                          .shift_b = 1}};
/// Stages that wait in registers, lines that end within a word.
const Base kWaiting{"waiting", "sm_75", "fp16 N N 71 75 77 lda=78 ldb=76 ldc=76 ldd=76 align=4",
                    CudaMma{.block_m = 64,
                            .block_n = 64,
                            .block_k = 32,
                            .warps_m = 2,
                            .warps_n = 2,
                            .stages = 2,
                            .instruction_k = 8,
                            .bits_a = 2,
                            .shift_a = 1}};
const Base kParts{"parts", "sm_80", "tf32 N N 130 139 200 align=4",
                  CudaMma{.block_m = 32,
                          .block_n = 64,
                          .block_k = 16,
                          .warps_m = 2,
                          .warps_n = 2,
                          .stages = 4,
                          .instruction_k = 8,
                          .bits_a = 2,
                          .shift_a = 1,
                          .bits_b = 2,
                          .base_b = 5,
                          .splits = 3}};

/// Blocks that stay, with even shares of the tiles: fewer tiles than blocks, and more.
constexpr CudaMma kStream{.block_m = 32,
                          .block_n = 32,
                          .block_k = 16,
                          .warps_m = 2,
                          .warps_n = 1,
                          .stages = 3,
                          .instruction_k = 8,
                          .bits_a = 2,
                          .base_a = 5,
                          .bits_b = 2,
                          .base_b = 5,
                          .stream = true};
const Base kPieces{"pieces", "sm_90a", "fp64 N N 40 60 400", kStream};
const Base kShares{"shares", "sm_90a", "fp64 N N 70 100 150", kStream};

const std::vector<Mutant> kMutants{
    // The ring.
    {&kRing, "does not wait for the first copies", "  cp_async_wait<kStages - 2>();\n  __sync",
     "  __sync"},
    {&kRing, "does not wait for copies", "    cp_async_wait<kStages - 2>();\n", "\n"},
    {&kRing, "waits for one group too few", "    cp_async_wait<kStages - 2>();\n",
     "    cp_async_wait<kStages - 1>();\n"},
    {&kRing, "does not wait for the others' first copies", "2>();\n  __syncthreads();\n",
     "2>();\n"},
    {&kRing, "does not wait for the others' copies", "2>();\n    __syncthreads();\n", "2>();\n"},
    {&kRing, "forgets to commit", "    cp_async_commit();\n", "\n"},
    {&kRing, "commits only where it copies", "    cp_async_commit();\n",
     "    if (copied <= count) cp_async_commit();\n"},
    {&kRing, "copies into the stage that is read", "u32 to = ring;",
     "u32 to = ring + kStageBytes;"},
    {&kRing, "reads the stage behind", "u32 stage = ring;", "u32 stage = ring + kStageBytes;"},
    {&kRing, "frees a stage before it has read it",
     "      read_step(f, a, b, stage, step);\n      // All of the stage is read: while this step "
     "multiplies, faster warps begin the next one.\n      if (step == kSteps - 1) next_stage();\n",
     "      const u32 here = stage;\n      if (step == kSteps - 1) next_stage();\n      "
     "read_step(f, a, b, here, step);\n"},
    {&kRing, "forgets the last stage", "_Pragma(\"unroll 1\") for (int i = 0; i < count; ++i)",
     "_Pragma(\"unroll 1\") for (int i = 0; i + 1 < count; ++i)"},
    {&kDoubles, "frees a stage a step too early", "if (step == kSteps - 1) next_stage();",
     "if (step == 0) next_stage();"},
    {&kDoubles, "reads ahead into the registers in use", "read_step(f[(step + 1) % 2]",
     "read_step(f[step % 2]"},
    {&kDoubles, "copies before the stage is free", "s < kStages - 1; ++s) copy_next();",
     "s < kStages; ++s) copy_next();"},
    {&kDoubles, "starts before the grid in front has ended", "  wait_for_previous_grid();\n", "\n"},
    // Layouts.
    {&kRing, "exchanges other bits when it reads", "exchanged_byte(line, 0, Bits, Base, Shift)",
     "exchanged_byte(line, 0, Bits, Base, Shift + 1)"},
    {&kRing, "does not exchange what it copies", "exchanged_byte(at, byte, Bits, Base, Shift));",
     "byte);"},
    {&kRing, "takes A's registers in the order of B's", "part[g + (IsA ? i % 2 : i / 2)]",
     "part[g + i / 2]"},
    {&kRing, "reads the other half of k", "return {lane % 8 + down * 8, half * 16};",
     "return {lane % 8 + down * 8, (1 - half) * 16 * is_a + half * 16 * !is_a};"},
    {&kRing, "multiplies the rows of another warp", "warp % kWarpsM * kTilesM * 16",
     "warp / kWarpsM * kTilesM * 16"},
    {&kDoubles, "takes neighbouring rows for distant ones", "line % 8, TileA::kNear)",
     "line % 8, 1)"},
    {&kDoubles, "exchanges two rows of A", "part[g][to + half] = two[0];",
     "part[g][to + half] = two[1];"},
    {&kDoubles, "takes the other k", "chunk * 8 + half * 4, g", "chunk * 8 + half * 4 * IsA, g"},
    {&kBytes, "deals lines in their order", "? (line & ~15) |", "? line + 0 * (line & ~15) |"},
    {&kBytes, "turns the wrong bytes", "0x6420", "0x7520"},
    {&kBytes, "swaps signed and unsigned", "s32.u8.s8.s32", "s32.s8.u8.s32"},
    {&kParts, "reads the columns of its neighbours", "g * 8 * kSize);\n            if constexpr",
     "(g ^ !IsA) * 8 * kSize);\n            if constexpr"},
    // Edges.
    {&kRing, "copies rows beyond the last", "i * kLinesAtOnce < lines",
     "i * kLinesAtOnce <= lines + 32"},
    {&kRing, "copies k beyond the last", "bytes -= kBlockK * kSize;", ";"},
    {&kDoubles, "copies lines beyond the last", "lines -= kBlockK;", ";"},
    {&kRing, "stores a row beyond the last", "row < out.rows && column",
     "row <= out.rows && column"},
    {&kRing, "stores a column beyond the last", "if (e + s < columns)", "if (e + s <= columns)", 1},
    {&kWaiting, "forgets the last element of a line", "s * kWidth + e * kSize < left",
     "s * kWidth + e * kSize + kSize < left"},
    // Sums on their way to D.
    {&kWaiting, "puts sums down where others still read", "  __syncthreads();\n  store_tile(",
     "  store_tile("},
    {&kRing, "reads sums before they are there", "    __syncwarp();\n", "\n"},
    {&kRing, "puts sums down before the last are read", "    __syncwarp();\n", "\n", 1},
    {&kBytes, "puts runs of sums in the wrong place", "lane % 4 * kRun", "lane % 4 * 2"},
    {&kRing, "gives all warps one place", "u32(my.warp * 16 * kRowPitch)",
     "u32(my.warp / 2 * 16 * kRowPitch)"},
    // Stages that wait in registers.
    {&kWaiting, "multiplies a stage before it is there", "    __syncthreads();\n", "\n"},
    {&kWaiting, "always fills the same buffer", "offset ^= kStageBytes;", ";"},
    // Cut k.
    {&kParts, "waits for one part more than there is", "u32(work.parts - 1)", "u32(work.parts)"},
    {&kParts, "takes the first part for the last", "u32(work.parts - 1)", "0"},
    {&kParts, "leaves its counter dirty", "if (thread == 0) *counter = 0;", ";"},
    {&kParts, "counts before its sums are stored", "  __threadfence();\n  __syncthreads();\n",
     "\n"},
    {&kParts, "forgets a part", "for (int p = 0; p < work.parts", "for (int p = 1; p < work.parts"},
    {&kParts, "begins a part a stage late", "work.begin = work.part * stages / kSplits;",
     "work.begin = work.part * stages / kSplits + (work.part == 1);"},
    // Blocks that stay.
    {&kShares, "copies over sums that others still store",
     "next copies go.\n    __syncthreads();\n", "next copies go.\n"},
    {&kShares, "begins each share at its tile's first stage", "i64(work.begin) * kBlockK",
     "i64(0) * kBlockK"},
    {&kPieces, "keeps all later pieces in one place", "work.first_slot + 2 * u32(part) - 1",
     "work.first_slot + 1"},
    {&kShares, "stores unfinished tiles", "args.workspace, my.thread)) return;",
     "args.workspace, my.thread)) ;"},
};

TEST(MmaMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(MmaMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kRing, &kDoubles, &kBytes, &kWaiting, &kParts, &kPieces, &kShares});
}

}  // namespace kiln::emulated_mma_mutants_test
