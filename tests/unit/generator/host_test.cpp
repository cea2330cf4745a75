// A program's own threads and memory, lent to kiln.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "kiln/kiln.h"
#include "kiln/kiln.hpp"
#include "runtime/cpu/thread_pool.h"
#include "runtime/workspace.h"

namespace kiln::host_test {

using testing::HasSubstr;

/// A pool of `size` threads, which it starts for each call.
struct Pool {
  int size;
  std::atomic<int> calls{0}, refused{0};

  static bool run(void* self, int count, void (*task)(void*, int), void* context) {
    auto& pool = *static_cast<Pool*>(self);
    if (count > pool.size) {
      ++pool.refused;
      return false;
    }
    ++pool.calls;
    std::vector<std::thread> threads;
    for (int i = 1; i < count; ++i) threads.emplace_back(task, context, i);
    task(context, 0);
    for (std::thread& thread : threads) thread.join();
    return true;
  }
};

class Host : public ::testing::Test {
 protected:
  void TearDown() override {
    lend_threads({});
    lend_memory({});
  }
};

/// Whether a product of ones on two threads is right. It has a barrier to meet at: its kernel
/// packs.
bool is_right(Engine& engine) {
  const Gemm gemm = Gemm::row_major(300, 200, 100);
  std::vector<float> a(300 * 100, 1), b(100 * 200, 2), d(300 * 200, -1);
  const Status done =
      engine.gemm(gemm, {.a = a.data(), .b = b.data(), .d = d.data(), .threads = 2});
  return done && d == std::vector<float>(300 * 200, 200);
}

TEST_F(Host, ThreadsOfTheProgramComputeProducts) {
  Engine engine = Engine::open({.database = ":memory:", .on_untuned = [](auto&) {}}).value();
  Pool pool{2}, small{1};
  lend_threads({Pool::run, &pool});
  EXPECT_TRUE(is_right(engine));
  EXPECT_GE(pool.calls, 1);
  lend_threads({Pool::run, &small});
  EXPECT_TRUE(is_right(engine)) << "on the calling thread alone";
  EXPECT_GE(small.refused, 1);
  EXPECT_EQ(small.calls, 0);
  lend_threads({});
  const int before = pool.calls;
  EXPECT_TRUE(is_right(engine));
  EXPECT_EQ(pool.calls, before);
}

TEST_F(Host, AllThreadsOfACallKnowHowManyTheyAre) {
  Pool pool{3};
  lend_threads({Pool::run, &pool});
  std::atomic<int> sum{0}, wrong{0};
  EXPECT_EQ(parallel(3,
                     [&](int thread, int threads) {
                       sum += thread;
                       wrong += threads != 3;
                     }),
            3);
  EXPECT_EQ(sum, 0 + 1 + 2);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(parallel(4, [&](int, int threads) { wrong += threads != 1; }), 1);
  EXPECT_EQ(wrong, 0);
}

/// Counts what is out, and gives nothing beyond `most` bytes.
struct Memory {
  std::size_t most = std::size_t{1} << 40;
  std::atomic<int> out{0}, taken{0};

  static void* allocate(void* self, std::size_t bytes, std::size_t alignment) {
    auto& memory = *static_cast<Memory*>(self);
    if (bytes > memory.most) return nullptr;
    ++memory.out, ++memory.taken;
    return std::aligned_alloc(alignment, bytes);
  }
  static void release(void* self, void* memory, std::size_t) {
    --static_cast<Memory*>(self)->out;
    std::free(memory);
  }
};

TEST_F(Host, WorkspacesAreTheProgramsMemory) {
  Memory memory;
  lend_memory({Memory::allocate, Memory::release, &memory});
  std::thread([&] {
    void* const small = workspace(1000).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 64, 0u);
    EXPECT_EQ(workspace(500).value(), small);
    EXPECT_NE(workspace(1 << 20).value(), nullptr);
    EXPECT_EQ(memory.out, 1) << "what was outgrown went back";
    EXPECT_EQ(memory.taken, 2);
    memory.most = 100;
    const auto refused = workspace(1 << 24);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::device);
    EXPECT_THAT(refused.error().message, HasSubstr("workspace of 16777216 bytes"));
    EXPECT_TRUE(workspace(1 << 20)) << "what was there is kept";
  }).join();
  EXPECT_EQ(memory.out, 0) << "the thread has ended";
}

TEST_F(Host, MemoryGoesBackToWhereItCameFrom) {
  Memory first, second;
  std::thread([&] {
    lend_memory({Memory::allocate, Memory::release, &first});
    ASSERT_TRUE(workspace(4096));
    lend_memory({Memory::allocate, Memory::release, &second});
    ASSERT_TRUE(workspace(4096));
    EXPECT_EQ(first.out, 0);
    EXPECT_EQ(second.out, 1);
    lend_memory({});
    ASSERT_TRUE(workspace(4096));
    EXPECT_EQ(second.out, 0);
  }).join();
}

TEST_F(Host, FromCAlike) {
  Engine engine = Engine::open({.database = ":memory:", .on_untuned = [](auto&) {}}).value();
  Pool pool{2};
  Memory memory;
  const auto run = [](void* self, int count, void (*task)(void*, int), void* context) {
    return Pool::run(self, count, task, context) ? 1 : 0;
  };
  kiln_lend_threads(run, &pool);
  kiln_lend_memory(Memory::allocate, Memory::release, &memory);
  std::thread([&] {
    EXPECT_TRUE(is_right(engine));
    EXPECT_TRUE(workspace(4096));
  }).join();
  EXPECT_GE(pool.calls, 1);
  EXPECT_GE(memory.taken, 1);
  EXPECT_EQ(memory.out, 0);
  kiln_lend_threads(nullptr, nullptr);
  kiln_lend_memory(nullptr, nullptr, nullptr);
  EXPECT_TRUE(is_right(engine));
}

}  // namespace kiln::host_test
