#include "runtime/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "support/eventually.h"

namespace {

std::atomic<long> g_allocations{0};

}  // namespace

// Out of line: GCC warns when it sees free() through one of the pair and not malloc() through the
// other.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace kiln::thread_pool_test {

TEST(ThreadPool, EveryThreadRunsOnceAndTheCallerIsFirst) {
  for (int threads = 1; threads <= 5; ++threads) {
    std::vector<std::atomic<int>> ran(static_cast<std::size_t>(threads));
    const auto caller = std::this_thread::get_id();
    const int count = parallel(threads, [&](int thread, int of) {
      EXPECT_EQ(of, threads);
      EXPECT_EQ(thread == 0, std::this_thread::get_id() == caller);
      ran[static_cast<std::size_t>(thread)].fetch_add(1);
    });
    EXPECT_EQ(count, threads);
    for (const auto& r : ran) EXPECT_EQ(r.load(), 1);
  }
}

TEST(ThreadPool, FewerThanOneThreadIsTheCaller) {
  int ran = 0;
  EXPECT_EQ(parallel(0, [&](int, int) { ++ran; }), 1);
  EXPECT_EQ(parallel(-3, [&](int, int) { ++ran; }), 1);
  EXPECT_EQ(ran, 2);
}

TEST(ThreadPool, ResultsAreVisibleAfterEachOfManyRuns) {
  constexpr int kThreads = 3;
  long values[kThreads] = {};
  TeamLease team(kThreads);
  struct Context {
    long* values;
    long round;
  } context{values, 0};
  for (; context.round < 3000; ++context.round) {
    ASSERT_TRUE(team.run(
        [](void* c, int thread, int) {
          auto* mine = static_cast<Context*>(c);
          mine->values[thread] += mine->round;
        },
        &context));
    for (long v : values) ASSERT_EQ(v, context.round * (context.round + 1) / 2);
  }
}

TEST(ThreadPool, ThreadsThatSleptWakeAgain) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> ran{0};
    parallel(2, [&](int, int) { ran.fetch_add(1); });
    EXPECT_EQ(ran.load(), 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // clock: ten times the spinning
  }
}

TEST(ThreadPool, ThreadsOfOneCallRunTogether) {
  // Each waits for the other inside the task: impossible unless both are in it.
  std::atomic<int> inside{0};
  parallel(2, [&](int, int) {
    inside.fetch_add(1);
    while (inside.load() < 2) sched_yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(ThreadPool, ConcurrentCallersDoNotMix) {
  constexpr int kCallers = 6, kRuns = 200;
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < kCallers; ++c)
    callers.emplace_back([&wrong, c] {
      for (int i = 0; i < kRuns; ++i) {
        const int threads = 1 + (c + i) % 3;
        int seen[3] = {};
        parallel(threads, [&](int thread, int of) { seen[thread] += of == threads; });
        for (int t = 0; t < threads; ++t) wrong += seen[t] != 1;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ThreadPool, WarmCallsAllocateNothing) {
  int sum[2] = {};
  const auto call = [&] { parallel(2, [&](int thread, int) { ++sum[thread]; }); };
  for (int i = 0; i < 10; ++i) call();
  const long before = g_allocations.load();
  for (int i = 0; i < 1000; ++i) call();
  EXPECT_EQ(g_allocations.load(), before);
  EXPECT_EQ(sum[1], 1010);
}

TEST(ThreadPool, HelpersStayOffTheCallersCpu) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const bool several = CPU_COUNT(&before) > 1;
  // A thread that is not pinned: the process may still use all CPUs.
  std::atomic<bool> over{false};
  std::jthread everywhere([&] { test::eventually([&] { return over.load(); }); });
  // The caller is put on each CPU in turn; its helper must make room every time.
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    int at[2] = {-1, -1};
    parallel(2, [&](int thread, int) { at[thread] = sched_getcpu(); });
    EXPECT_EQ(at[0], cpu);
    // Moving a thread takes effect when it next enters the scheduler.
    test::eventually([&] {
      parallel(2, [&](int thread, int) { at[thread] = sched_getcpu(); });
      return !several || at[1] != cpu;
    });
  }
  sched_setaffinity(0, sizeof(before), &before);
  over = true;
}

TEST(ThreadPool, HelpersLeaveSignalsToTheProgramButTakeFaults) {
  sigset_t helper;
  parallel(2, [&](int thread, int) {
    if (thread == 1) pthread_sigmask(SIG_SETMASK, nullptr, &helper);
  });
  EXPECT_EQ(sigismember(&helper, SIGINT), 1);
  EXPECT_EQ(sigismember(&helper, SIGTERM), 1);
  EXPECT_EQ(sigismember(&helper, SIGSEGV), 0);
  EXPECT_EQ(sigismember(&helper, SIGILL), 0);
  sigset_t caller;
  pthread_sigmask(SIG_SETMASK, nullptr, &caller);
  EXPECT_EQ(sigismember(&caller, SIGTERM), 0);
}

// ThreadSanitizer ends a child that starts threads after a fork of several, whoever is right.
#if !defined(__SANITIZE_THREAD__)
TEST(ThreadPool, AForkedChildHasThreadsOfItsOwn) {
  parallel(2, [](int, int) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    test::end_when_hung();
    std::atomic<int> ran{0};
    parallel(2, [&](int, int) { ran.fetch_add(1); });
    _exit(ran.load() == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::atomic<int> ran{0};
  parallel(2, [&](int, int) { ran.fetch_add(1); });
  EXPECT_EQ(ran.load(), 2);
}
#endif

}  // namespace kiln::thread_pool_test
