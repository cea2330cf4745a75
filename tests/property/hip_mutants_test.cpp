// Bugs planted in hip_mfma's paced kernels and in those that turn operands over while reading them.
#include <vector>

#include "support/mutants.h"

namespace kiln {
namespace {

using test::Base;
using test::Mutant;

const Base kByTurns{"by_turns", "gfx942",
                    "bf16 N T 200 120 456 lda=464 ldb=464 ldc=128 ldd=120 align=16",
                    HipMfma{.rows = 16,
                            .k = 16,
                            .tile_m = 128,
                            .tile_n = 128,
                            .depth = 64,
                            .waves_m = 2,
                            .waves_n = 4,
                            .staging = Staging::twice,
                            .pace = Pace::pingpong}};
const Base kByTurnsDirect{"by_turns_direct", "gfx950",
                          "bf16 N T 200 120 456 lda=464 ldb=464 ldc=128 ldd=120 align=16",
                          HipMfma{.rows = 16,
                                  .k = 32,
                                  .tile_m = 64,
                                  .tile_n = 128,
                                  .depth = 128,
                                  .waves_m = 2,
                                  .waves_n = 4,
                                  .staging = Staging::direct,
                                  .pace = Pace::pingpong}};
const Base kHalves{"halves", "gfx950",
                   "fp8 N T 100 120 912 lda=912 ldb=912 ldc=128 ldd=120 align=16",
                   HipMfma{.rows = 16,
                           .k = 128,
                           .tile_m = 64,
                           .tile_n = 128,
                           .depth = 128,
                           .waves_m = 2,
                           .waves_n = 4,
                           .staging = Staging::direct,
                           .pace = Pace::pingpong}};
const Base kBetween{"between", "gfx950",
                    "fp8 N T 100 120 912 lda=912 ldb=912 ldc=128 ldd=120 align=16",
                    HipMfma{.rows = 16,
                            .k = 128,
                            .tile_m = 64,
                            .tile_n = 64,
                            .depth = 256,
                            .waves_m = 2,
                            .waves_n = 2,
                            .staging = Staging::direct,
                            .pace = Pace::interleaved}};
const Base kOver{"over", "gfx950", "bf16 T T 104 120 456 lda=112 ldb=464 ldc=128 ldd=120 align=16",
                 HipMfma{.rows = 16,
                         .k = 32,
                         .tile_m = 64,
                         .tile_n = 64,
                         .depth = 128,
                         .waves_m = 2,
                         .waves_n = 4,
                         .staging = Staging::direct,
                         .pace = Pace::pingpong,
                         .turn = true}};
const Base kOverBytes{"over_bytes", "gfx950",
                      "int8 N N 100 120 203 lda=208 ldb=120 ldc=128 ldd=120 align=4",
                      HipMfma{.rows = 32,
                              .k = 32,
                              .tile_m = 64,
                              .tile_n = 128,
                              .depth = 64,
                              .waves_m = 2,
                              .waves_n = 2,
                              .staging = Staging::twice,
                              .turn = true}};

const std::vector<Mutant> kMutants{
    // AMD: waves that take turns.
    {&kByTurns, "lets both halves start together", "if (behind) half_step();", ";"},
    {&kByTurns, "ends a half step too early", "if (!behind) half_step();", ";"},
    {&kByTurns, "reads on while the others read", "set_priority<0>();\n        half_step();",
     "set_priority<0>();"},
    {&kByTurns, "reads before the others have stored", "half_step();\n        set_priority<1>();",
     "set_priority<1>();"},
    {&kByTurns, "does not wait for its stores", "  wait_for_shared();\n", "\n"},
    {&kByTurns, "fills the stage that is being read", "next.store(kStageBytes - stage, thread);",
     "next.store(stage, thread);"},
    {&kByTurns, "fetches one stage too few", "if (i + 2 < count) next.load",
     "if (i + 3 < count) next.load"},
    {&kByTurns, "starts before the first stage is there", "  block_barrier();\n  if (behind)",
     "  if (behind)"},
    {&kByTurnsDirect, "does not wait for its loads",
     "if (step == kSteps - 1 && part == kParts - 1) wait_for_loads();", ";"},
    {&kByTurnsDirect, "waits for its loads when the others read them already",
     "if (step == kSteps - 1 && part == kParts - 1) wait_for_loads();\n        half_step();",
     "half_step();\n        if (step == kSteps - 1 && part == kParts - 1) wait_for_loads();"},
    {&kByTurnsDirect, "loads into the stage that is being read",
     "load_stage(kStageBytes - stage, a", "load_stage(stage, a"},
    {&kByTurnsDirect, "loads while the others still read",
     "set_priority<0>();\n        half_step();", "set_priority<0>();"},
    {&kHalves, "takes the first half of a step twice", "first = part * kPartRows",
     "first = 0 * part"},
    {&kHalves, "waits for its loads a half too late", "part == kParts - 1) wait_for_loads();",
     "part == kParts) wait_for_loads();"},
    {&kHalves, "reads the other operand of one half only", "if (part == 0) now.read_b",
     "if (part == 1) now.read_b"},
    {&kBetween, "multiplies the first step again", "steps[step % 2].add_products",
     "steps[0].add_products"},
    {&kBetween, "reads a step twice", "read(stage, rows, step + 1)", "read(stage, rows, step)"},
    {&kBetween, "leaves the last step unread", "if (step + 1 < kSteps) steps",
     "if (step + 2 < kSteps) steps"},
    // AMD: operands turned over.
    {&kOver, "reads the first half of a unit twice", "(unit * 2 + half) * kReadLines",
     "(unit * 2) * kReadLines"},
    {&kOver, "exchanges the halves of a unit", "(unit * 2 + half) * kReadLines",
     "(unit * 2 + 1 - half) * kReadLines"},
    {&kOver, "gives the lanes other lines", "+ lane / kLineLanes;", "+ lane % kLineLanes;"},
    {&kOver, "gives the lanes other rows", "lane % kLineLanes * 8", "lane / kLineLanes * 8"},
    {&kOver, "loads without the exchange that it reads with",
     "chunk_address<Rows>(line, at / kChunkBytes) - line * kLineBytes",
     "at / kChunkBytes * kChunkBytes"},
    {&kOver, "reads with the other operand's lines", "stage + kBytesA + unit_address",
     "stage + unit_address"},
    {&kOver, "loads a line too far", "line * pitch + rows", "(line + 1) * pitch + rows"},
    {&kOverBytes, "turns over words for bytes", "ds_read_b64_tr_b8(at); }",
     "ds_read_b64_tr_b16(at); }"},
    {&kOverBytes, "stores without the exchange that it reads with",
     "ds_write_b128(to + chunk + at % kChunkBytes", "ds_write_b128(to + slot * 16"},
};

TEST(PacedMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(PacedMutants, UnchangedKernelsAreClean) {
  const std::vector<const Base*> bases{&kByTurns, &kByTurnsDirect, &kHalves,
                                       &kBetween, &kOver,          &kOverBytes};
  test::expect_clean(bases);
}

}  // namespace
}  // namespace kiln
