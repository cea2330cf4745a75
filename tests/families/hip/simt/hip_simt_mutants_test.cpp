// Bugs planted in hip_simt: the two stages in shared memory, the edges, and the scales.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/hip/simt/config.h"
#include "support/mutants.h"

namespace kiln::hip_simt_mutants_test {

using test::Base;
using test::Mutant;

// Several tiles each way, none of them whole at the edges, and k with an end.
const Base kPlain{
    "plain", "gfx942", "fp32 N N 75 83 61 batch=2 ldd=85",
    HipSimt{.tile_m = 32, .tile_n = 64, .tile_k = 16, .each_m = 2, .each_n = 4, .pad = 4}};
// Codes that span two bytes beside codes that do not.
const Base kScaled{
    "scaled", "gfx942", "e2m3e5m2 N T 40 50 96 batch=2 scale=mx32",
    HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2, .pad = 0}};

const std::vector<Mutant> kMutants{
    {&kPlain, "multiplies before the tiles are there", "    block_barrier();\n    if (k",
     "    if (k"},
    {&kPlain, "stores over what is still read",
     "multiply(sums, my_row, my_column);\n    block_barrier();",
     "multiply(sums, my_row, my_column);"},
    {&kPlain, "loads the same piece of A again", "args.m, k + kTileK,", "args.m, k,"},
    {&kPlain, "does not load the last piece", "if (k + kTileK < args.k)",
     "if (k + 2 * kTileK < args.k)"},
    {&kPlain, "reads rows beyond the last", "if (r >= rows || d >= ks)", "if (d >= ks)"},
    {&kPlain, "reads beyond k", "if (r >= rows || d >= ks)", "if (r >= rows)"},
    {&kPlain, "reads B by the pitch of A", "shared_b[k * kPitchN", "shared_b[k * kPitchM"},
    {&kPlain, "has a pitch that is too short", "kPitchM = kTileM + kPad", "kPitchM = kTileM - 1"},
    {&kPlain, "exchanges the threads' rows and columns", "thread / kThreadsN * kEachM",
     "thread % kThreadsN * kEachM"},
    {&kPlain, "gives all blocks the first column of tiles", "in_batch / tiles_m * kTileN",
     "in_batch / (tiles_m * tiles_n) * kTileN"},
    {&kPlain, "takes all batches for the first", "batch = block / (tiles_m * tiles_n)",
     "batch = 0"},
    {&kPlain, "stores rows beyond the last", "if (r < out.rows && c", "if (c"},
    {&kPlain, "stores columns beyond the last", " && c < out.columns)", ")"},
    {&kScaled, "takes a scale for twice as many elements", "row * pitch + k / 32",
     "row * pitch + k / 64"},
    {&kScaled, "takes the next row's scales", "[row * pitch + k / 32]",
     "[(row + 1) * pitch + k / 32]"},
    {&kScaled, "takes the first batch's scales", "batch * of_batch", "0 * of_batch"},
    {&kScaled, "forgets the upper part of a code", "if (bit % 8 + Bits > 8)", "if (false)"},
    {&kScaled, "forgets the sign", "bits_as<float>(bits | sign)", "bits_as<float>(bits)"},
    {&kScaled, "takes denormal codes for normal ones", "magnitude >> Mantissa ? normal",
     "true ? normal"},
};

TEST(HipSimtMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(HipSimtMutants, UnchangedKernelsAreClean) { test::expect_clean({&kPlain, &kScaled}); }

}  // namespace kiln::hip_simt_mutants_test
