#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "runtime/cpu/cpu.h"
#include "runtime/workspace.h"

namespace kiln::launch_test {

TEST(Workspace, GrowsAndIsReused) {
  std::thread([] {
    void* small = *workspace(100);
    ASSERT_NE(small, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 64, 0u);
    std::memset(small, 1, 100);
    EXPECT_EQ(*workspace(50), small);
    EXPECT_EQ(*workspace(0), small);
    void* large = *workspace(5 << 20);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % (2 << 20), 0u) << "huge pages need it";
    std::memset(large, 1, 5 << 20);
    EXPECT_EQ(*workspace(100), large);
  }).join();
}

TEST(Workspace, EveryThreadHasItsOwn) {
  void* mine = *workspace(100);
  void* other = mine;
  unsigned* barrier = barrier_words();
  std::thread([&] {
    other = *workspace(100);
    barrier = barrier_words();
  }).join();
  EXPECT_NE(other, mine);
  EXPECT_NE(barrier, barrier_words());
}

TEST(Workspace, MoreThanThereIsIsAnError) {
  void* before = *workspace(100);
  const auto refused = workspace(std::int64_t{1} << 60);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::device);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("1152921504606846976"));
  EXPECT_EQ(*workspace(100), before) << "what was there stays usable";
}

// A kernel of the ABI: every thread writes its number into its slot of the workspace, all meet at
// the barrier, and thread 0 adds the slots up into D.
void meet(unsigned* barrier, int threads) {
  if (__atomic_add_fetch(&barrier[0], 1u, __ATOMIC_ACQ_REL) == static_cast<unsigned>(threads))
    __atomic_store_n(&barrier[1], 1u, __ATOMIC_RELEASE);
  while (__atomic_load_n(&barrier[1], __ATOMIC_ACQUIRE) == 0) std::this_thread::yield();
  if (__atomic_sub_fetch(&barrier[0], 1u, __ATOMIC_ACQ_REL) == 0)
    __atomic_store_n(&barrier[1], 0u, __ATOMIC_RELEASE);
}

void sum_kernel(const KilnArgs* args, int thread, int threads) {
  auto* slots = static_cast<long long*>(args->workspace);
  slots[thread] = thread + args->k;
  meet(args->barrier, threads);
  if (thread != 0) return;
  long long sum = 0;
  for (int i = 0; i < threads; ++i) sum += slots[i];
  *static_cast<long long*>(args->d) = sum;
}

long long sum_workspace(const KilnArgs*, int threads) {
  return threads * static_cast<long long>(sizeof(long long));
}

TEST(Launch, GivesThreadsWorkspaceAndBarrier) {
  for (int threads : {1, 2, 3, 1, 2}) {
    for (int i = 0; i < 50; ++i) {
      long long d = 0;
      KilnArgs args{};
      args.k = i;
      args.d = &d;
      const Status status =
          launch(sum_kernel, sum_workspace, args, threads, sum_workspace(&args, threads));
      ASSERT_TRUE(status) << status.error().message;
      EXPECT_EQ(d, threads * i + threads * (threads - 1) / 2);
      for (int w = 0; w < 4; ++w) EXPECT_EQ(barrier_words()[w], 0u);
    }
  }
}

/// Thread 0 adds the bias up into D, and writes over its whole workspace first.
void add_bias(const KilnArgs* args, int thread, int) {
  if (thread != 0) return;
  std::memset(args->workspace, 0xff, 100);
  float sum = 0;
  for (long long i = 0; i < args->n; ++i) sum += static_cast<const float*>(args->bias)[i];
  *static_cast<float*>(args->d) = sum;
}

TEST(Launch, ANarrowBiasReachesTheKernelAsFp32) {
  for (const auto& [type, one] : {std::pair{fp16, std::uint16_t{0x3c00}}, {bf16, {0x3f80}}})
    for (int threads : {1, 2}) {
      const std::vector<std::uint16_t> bias(37, one);
      float d = 0;
      HostArgs args;
      args.n = 37;
      args.bias = bias.data();
      args.bias_kind = kBiasPerColumn;
      args.bias_type = type;
      args.d = &d;
      EXPECT_EQ(bytes_of_call(args, 100), 128 + 37 * 4);
      const auto ask = [](const KilnArgs*, int) { return 100LL; };
      ASSERT_TRUE(launch(add_bias, ask, args, threads, 100));
      EXPECT_EQ(d, 37) << name(type);
    }
}

TEST(Launch, ManyCallersAtOnce) {
  std::vector<std::thread> callers;
  std::vector<long long> results(5);
  for (std::size_t c = 0; c < results.size(); ++c)
    callers.emplace_back([&results, c] {
      for (int i = 0; i < 100; ++i) {
        KilnArgs args{};
        args.k = static_cast<long long>(c);
        args.d = &results[c];
        EXPECT_TRUE(launch(sum_kernel, sum_workspace, args, 2, sum_workspace(&args, 2)));
      }
    });
  for (auto& caller : callers) caller.join();
  for (std::size_t c = 0; c < results.size(); ++c)
    EXPECT_EQ(results[c], 2 * static_cast<long long>(c) + 1);
}

TEST(Launch, NoMemoryIsAnErrorAndTheKernelIsNotRun) {
  const auto never = [](const KilnArgs*, int, int) { FAIL() << "must not run"; };
  for (int threads : {1, 2}) {
    const Status status = launch(never, sum_workspace, {}, threads, std::int64_t{1} << 60);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::device);
  }
}

TEST(MakeArgs, ExchangesOperandsWithTheProblem) {
  const float a = 1, b = 2, c = 3, bias = 4, residual = 5;
  float d = 0;
  const Operands operands{.a = &a,
                          .b = &b,
                          .c = &c,
                          .d = &d,
                          .bias = &bias,
                          .residual = &residual,
                          .alpha = 2,
                          .beta = 3};
  Gemm g = Gemm::row_major(2, 3, 4).batched(5);
  g.a.ld = 10, g.b.ld = 11, g.c.ld = 12, g.d.ld = 13;
  const KilnArgs args = make_args(Problem::of(g).value(), operands);
  EXPECT_EQ(args.a, &a);
  EXPECT_EQ(args.b, &b);
  EXPECT_EQ(args.c, &c);
  EXPECT_EQ(args.d, &d);
  EXPECT_EQ(args.bias, &bias);
  EXPECT_EQ(args.residual, &residual);
  EXPECT_EQ((std::vector{args.m, args.n, args.k, args.batch}), (std::vector{2LL, 3LL, 4LL, 5LL}));
  EXPECT_EQ((std::vector{args.lda, args.ldb, args.ldc, args.ldd}),
            (std::vector{10LL, 11LL, 12LL, 13LL}));
  EXPECT_EQ((std::vector{args.stride_a, args.stride_b, args.stride_c, args.stride_d}),
            (std::vector{20LL, 44LL, 24LL, 26LL}));
  EXPECT_EQ(args.alpha, 2);
  EXPECT_EQ(args.beta, 3);

  const KilnArgs swapped = make_args(Problem::of(Gemm::column_major(2, 3, 4)).value(), operands);
  EXPECT_EQ(swapped.a, &b);
  EXPECT_EQ(swapped.b, &a);
  EXPECT_EQ(swapped.m, 3);
  EXPECT_EQ(swapped.n, 2);
}

}  // namespace kiln::launch_test
