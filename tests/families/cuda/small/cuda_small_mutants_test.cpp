// Bugs planted in the kernels of cuda_small: products, stages, waits and edges of a batch.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/small/config.h"
#include "support/mutants.h"

namespace kiln::cuda_small_mutants_test {

using test::Base;
using test::Mutant;

constexpr auto kAsync = SmallCopy::async;
constexpr auto kShared = SmallStore::shared;

// Rows and columns that not every lane has, a last step of k that is shorter, and several turns of
// a block, the last with fewer products.
const Base kLines{"lines", "sm_80", "fp32 N N 10 12 10 batch=27 lda=12 ldd=13 align=4",
                  CudaSmall{.products = 4,
                            .lanes_m = 3,
                            .lanes_n = 5,
                            .depth = 4,
                            .copy = kAsync,
                            .width = 4,
                            .stages = 3,
                            .turns = 0}};
// Products that are copied and finished as one run.
const Base kRun{"run", "sm_90a", "fp16 N T 5 7 3 batch=41 align=16",
                CudaSmall{.products = 8,
                          .lanes_m = 5,
                          .lanes_n = 1,
                          .depth = 2,
                          .copy = kAsync,
                          .width = 16,
                          .stages = 2,
                          .store = kShared,
                          .turns = 0}};
const Base kPlain{"plain", "sm_75", "fp32 T N 8 16 12 batch=22 align=16",
                  CudaSmall{.products = 4, .lanes_m = 4, .lanes_n = 4, .width = 16, .turns = 0}};
const Base kMatrix{"matrix", "sm_80", "bf16 N N 40 24 32 batch=9 align=16",
                   CudaSmall{.products = 2,
                             .lanes_m = 16,
                             .lanes_n = 4,
                             .depth = 16,
                             .matrix = true,
                             .copy = kAsync,
                             .width = 16,
                             .stages = 2,
                             .turns = 0}};
const Base kDoubles{"doubles", "sm_90a", "fp64 T N 17 13 16 batch=5 align=16",
                    CudaSmall{.products = 2,
                              .lanes_m = 8,
                              .lanes_n = 4,
                              .depth = 8,
                              .matrix = true,
                              .copy = kAsync,
                              .width = 8}};

const std::vector<Mutant> kMutants{
    {&kLines, "multiplies before its copies are there", "cp_async_wait<kStages - 2>();", ""},
    {&kLines, "waits for a stage less", "cp_async_wait<kStages - 2>()",
     "cp_async_wait<kStages - 1>()"},
    {&kLines, "multiplies before others' copies are there", "__syncthreads();", ""},
    {&kLines, "fills the stage that is multiplied", "shared + stage * kStageBytes",
     "shared + (stage + 1) % kStages * kStageBytes"},
    {&kLines, "multiplies the stage before", "shared + stage * kStageBytes",
     "shared + (stage + kStages - 1) % kStages * kStageBytes", 1},
    {&kLines, "fills a stage too many", "stage + 1 == kStages", "stage == kStages"},
    {&kLines, "brings a group too late", "const i64 next = group + (kStages - 1) * apart;",
     "const i64 next = group + kStages * apart;"},
    {&kLines, "leaves copies in the group before", "    cp_async_commit();\n", "\n"},
    {&kLines, "computes products behind the batch", "product >= args.batch", "false"},
    {&kLines, "computes a product twice", "team * kApartA", "team / 2 * kApartA"},
    {&kLines, "takes another product's B", "team * kApartB", "(team ^ 1) * kApartB"},
    {&kLines, "stores rows behind the last", "if (row >= kM) continue;", ""},
    {&kLines, "stores columns behind the last", "if (column >= kN) continue;", ""},
    {&kLines, "forgets the last steps of k", "if constexpr (kK % kDepth != 0)",
     "if constexpr (false)"},
    {&kLines, "copies lines as if they were adjacent", "own * ld + x", "own * kRun + x"},
    {&kLines, "takes the first product's place for all", "product * stride + own", "own"},
    {&kLines, "adds C as it is", "out.beta * to_real", "to_real"},
    {&kLines, "forgets alpha", "product(Real(sums[i][j]), out.alpha)", "Real(sums[i][j])"},
    {&kLines, "gives lanes neighbouring rows", "return (lane + i / run * lanes) * run + i % run;",
     "return lane * run + i;"},
    {&kRun, "finishes accumulators before all are there", "    __syncthreads();\n", "\n", 1},
    {&kRun, "finishes elements behind the batch", "|| at + kWidthD <= end) {", "|| true) {"},
    {&kRun, "takes C of the product before", "out = output_of(args, first + ++team);", ""},
    {&kRun, "goes to the next row too late", "++column < kN ||", "++column <= kN ||"},
    {&kRun, "finishes the first group only", "output_of(args, first + team)",
     "output_of(args, team)"},
    {&kRun, "leaves accumulators where another product's are", "left + team * (kM * kN)",
     "left + team / 2 * (kM * kN)"},
    {&kPlain, "multiplies before the operands are there", "    __syncthreads();\n", "\n"},
    {&kPlain, "overwrites operands that are still read", "    __syncthreads();\n", "\n", 1},
    {&kPlain, "copies every second line", "first < kCopies; first += kTogether * kThreads",
     "first < kCopies / 2; first += kTogether * kThreads"},
    {&kMatrix, "reads the first warp's rows for all", "lane_m / 8 * 8 + (2 * i", "(2 * i"},
    {&kMatrix, "reads eight rows twice", "number % 2) * kLanesM", "number / 4) * kLanesM"},
    {&kMatrix, "reads the first half of a step of A twice", "k + number / 2 * 8", "k"},
    {&kMatrix, "reads the first half of a step of B twice", "k + number % 2 * 8", "k"},
    {&kMatrix, "takes columns of another tile", "(2 * j + number / 2) * 8", "2 * j * 8"},
    {&kMatrix, "exchanges rows and columns of accumulators", "i % 2 * 2 + j % 2",
     "j % 2 * 2 + i % 2"},
    {&kDoubles, "takes A's first steps of k twice", "k + lane_n + part / 2 * 4", "k + lane_n"},
    {&kDoubles, "takes B's first steps of k twice", "k + lane_n + part * 4", "k + lane_n"},
};

TEST(SmallMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(SmallMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kLines, &kRun, &kPlain, &kMatrix, &kDoubles});
}

}  // namespace kiln::cuda_small_mutants_test
