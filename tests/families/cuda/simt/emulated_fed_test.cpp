// cuda_simt whose tiles are copied by warps of their own: drawn configs, and planted bugs in the
// ring between those that copy and those that multiply.
#include <gtest/gtest.h>

#include "generator/families/cuda/simt/config.h"
#include "support/mutants.h"
#include "support/prove.h"

namespace kiln::emulated_fed_test {

using test::Base;
using test::Mutant;

/// Rare among all configs of the family, and legal only where 128 threads of a block multiply.
TEST(EmulatedFed, SampledConfigsAreRight) {
  const test::Target target{
      .arch = "sm_90a", .family = "cuda_simt", .configs = 8, .largest = 300, .tries = 60};
  const auto rows = test::rows_of(target);
  ASSERT_FALSE(rows.empty());
  test::prove(target, test::any_of(rows), [](const Gemm&, const Config& config) {
    return config.as<CudaSimt>().copy == SimtCopy::warps;
  });
}

constexpr CudaSimt kPoint{.block_m = 64,
                          .block_n = 128,
                          .block_k = 8,
                          .thread_m = 8,
                          .thread_n = 8,
                          .width_a = 1,
                          .width_b = 4,
                          .copy = SimtCopy::warps,
                          .stages = 3,
                          .ahead = true,
                          .resident = 2,
                          .group = 4,
                          .order = SimtOrder::columns,
                          .unroll = 4};
constexpr CudaSimt cut(CudaSimt c) {
  c.sharing = Sharing::stream;
  c.order = SimtOrder::folded;
  return c;
}
// Several tiles a block, k with an end that is not a whole pass.
const Base kFed{"fed", "sm_90a", "fp32 N N 150 260 61 lda=64 ldb=260 ldc=260 ldd=260 align=16",
                kPoint};
const Base kActs{"acts", "sm_90a",
                 "fp32 N N 150 260 61 lda=64 ldb=260 ldc=260 ldd=260 align=16 epilogue=gelu",
                 kPoint};
const Base kStream{"stream", "sm_90a",
                   "fp32 N N 150 260 120 lda=120 ldb=260 ldc=260 ldd=260 align=16", cut(kPoint), 5};

const std::vector<Mutant> kMutants{
    {&kFed, "multiplies without waiting for the copies",
     "mbarrier_wait(ring.whole(), ring.parity);", ";"},
    {&kFed, "does not wait for later stages", "mbarrier_wait(ring.whole(), ring.parity);", ";", 1},
    {&kFed, "waits for the wrong parity", "mbarrier_wait(ring.whole(), ring.parity);",
     "mbarrier_wait(ring.whole(), ring.parity ^ 1);"},
    {&kFed, "copies over what is still read", "mbarrier_wait(ring.free(), ring.parity ^ 1);", ";"},
    {&kFed, "says whole before the copies have come", "cp_async_arrive(ring.whole());",
     "mbarrier_arrive(ring.whole());"},
    {&kFed, "never says free", "if (lane == 0) mbarrier_arrive(ring.free());", ";"},
    {&kFed, "every lane says free", "if (lane == 0) mbarrier_arrive(ring.free());",
     "mbarrier_arrive(ring.free());"},
    {&kFed, "says free before the other lanes have read", "__syncwarp();\n      if (lane == 0)",
     "if (lane == 0)"},
    {&kFed, "a stage is free when the first warp says so",
     "mbarrier_init(barriers + (kStages + s) * 8, kThreads / 32);",
     "mbarrier_init(barriers + (kStages + s) * 8, 1);"},
    {&kFed, "a stage is whole when half of the threads say so",
     "mbarrier_init(barriers + s * 8, kThreads);",
     "mbarrier_init(barriers + s * 8, kThreads / 2);"},
    {&kFed, "the ring keeps its parity", "parity ^= 1;", ";"},
    {&kFed, "the ring has a stage too many", "if (++stage == kStages)",
     "if (++stage == kStages + 1)"},
    {&kFed, "barriers lie in the last stage", "stages + u32(kStages * kStage * sizeof(Acc))",
     "stages + u32(kStages * kStage * sizeof(Acc)) - 32"},
    {&kFed, "nobody waits for the barriers to be made",
     "  __syncthreads();\n  TileScheduler scheduler", "  TileScheduler scheduler"},
    {&kFed, "turns of the loop do not move in A", "left += kUnroll * Lines<kBlockM>::kPitch;", ";"},
    {&kFed, "B moves by the lines of A", "right += kUnroll * Lines<kBlockN>::kPitch;",
     "right += kUnroll * Lines<kBlockM>::kPitch;"},
    {&kFed, "the end of k is copied as if it were whole", "if (pass < whole)",
     "if (pass <= whole)"},
    {&kActs, "sums wait in the ring", "shared + kStages * (kStage * sizeof(Acc) + 16)", "shared"},
    {&kActs, "sums lie on the barriers", "shared + kStages * (kStage * sizeof(Acc) + 16)",
     "shared + kStages * kStage * sizeof(Acc)"},
    {&kActs, "all threads are awaited for the sums", "named_barrier_sync(kSumsBarrier, kThreads);",
     "named_barrier_sync(kSumsBarrier, 2 * kThreads);"},
    {&kActs, "sums are read before they are written", "named_barrier_sync(kSumsBarrier, kThreads);",
     ";"},
    {&kStream, "parts count before they are stored", "named_barrier_sync(kSumsBarrier, kThreads);",
     ";"},
    {&kStream, "a pair of rows is summed twice", "second = (turn + turn / 2) % 2",
     "second = turn / 2 % 2"},
};

TEST(EmulatedFed, PlantedBugsAreCaught) { test::expect_caught(kMutants); }
TEST(EmulatedFed, WithoutBugsNothingIsReported) { test::expect_clean({&kFed, &kActs, &kStream}); }

}  // namespace kiln::emulated_fed_test
