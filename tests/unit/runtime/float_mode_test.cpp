// A call has one floating-point mode, the caller's, on every thread of it and whoever made them.
#include "runtime/cpu/float_mode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cfenv>
#include <string>
#include <thread>
#include <vector>

#include "cache/records/maintenance.h"
#include "kiln/kiln.hpp"
#include "runtime/cpu/thread_pool.h"
#include "support/child.h"
#include "support/eventually.h"
#include "support/opened_engine.h"

namespace kiln::float_mode_test {

constexpr int kThreads = 3;

/// Modes that the threads of one call see.
std::array<FloatMode, kThreads> modes_of_a_call() {
  std::array<FloatMode, kThreads> seen{};
  parallel(kThreads,
           [&](int thread, int) { seen[static_cast<std::size_t>(thread)] = float_mode(); });
  return seen;
}

bool all_are(const std::array<FloatMode, kThreads>& seen, FloatMode mode) {
  return std::ranges::all_of(seen, [&](FloatMode one) { return one == mode; });
}

/// Flush to zero and denormals are zero, where the CPU has such a mode.
FloatMode flushing() {
#if defined(__x86_64__)
  return 0x8040;
#else
  return FloatMode{1} << 24;
#endif
}

/// For the time of a scope.
class Mode {
 public:
  explicit Mode(FloatMode mode) { set_float_mode(mode); }
  ~Mode() { set_float_mode(before_); }
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;

 private:
  FloatMode before_ = float_mode();
};

TEST(FloatMode, IsWhatTheStandardLibrarySets) {
  const UsualFloatMode usual;
  EXPECT_EQ(float_mode(), 0u);
  std::fesetround(FE_UPWARD);
  EXPECT_NE(float_mode(), 0u);
  {
    const UsualFloatMode inner;
    EXPECT_EQ(float_mode(), 0u);
  }
  EXPECT_NE(float_mode(), 0u);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(float_mode(), 0u);
}

TEST(FloatMode, OfTheCallerIsThatOfEveryThread) {
  const UsualFloatMode usual;
  EXPECT_TRUE(all_are(modes_of_a_call(), 0));
  {
    const Mode flush(flushing());
    EXPECT_TRUE(all_are(modes_of_a_call(), flushing())) << "threads that were there before";
  }
  EXPECT_TRUE(all_are(modes_of_a_call(), 0)) << "and afterwards";
}

// ThreadSanitizer ends a child that starts threads after a fork of several, whoever is right.
#if !defined(__SANITIZE_THREAD__)
TEST(FloatMode, DoesNotDependOnWhoMadeTheThreads) {
  EXPECT_TRUE(test::in_child([] {
    test::end_when_hung();
    {
      const Mode flush(flushing());
      if (!all_are(modes_of_a_call(), flushing())) return false;
    }
    const UsualFloatMode usual;
    return all_are(modes_of_a_call(), 0);
  }));
}
#endif

TEST(FloatMode, IsCarriedToALentPoolAndGivenBack) {
  static std::atomic<int> left_changed{0};
  lend_threads({[](void*, int count, void (*task)(void*, int), void* context) {
                  std::vector<std::jthread> threads;
                  for (int i = 1; i < count; ++i)
                    threads.emplace_back([=] {
                      set_float_mode(0);
                      task(context, i);
                      left_changed += float_mode() != 0 ? 1 : 0;
                    });
                  task(context, 0);
                  return true;
                },
                nullptr});
  {
    const Mode flush(flushing());
    EXPECT_TRUE(all_are(modes_of_a_call(), flushing()));
  }
  lend_threads({});
  EXPECT_EQ(left_changed, 0);
}

/// Zeros in the product of a matrix of denormals with the unit matrix.
std::ptrdiff_t zeros(Engine& engine, int threads) {
  constexpr int kSize = 128;
  std::vector<float> a(kSize * kSize, 1e-39F), b(kSize * kSize), d(kSize * kSize, -1);
  for (int i = 0; i < kSize; ++i) b[static_cast<std::size_t>(i * kSize + i)] = 1;
  const Status ran = engine.gemm(Gemm::row_major(kSize, kSize, kSize),
                                 {.a = a.data(), .b = b.data(), .d = d.data(), .threads = threads});
  EXPECT_TRUE(ran) << ran.error().message;
  const UsualFloatMode usual;  // in the other one a denormal equals zero
  return std::ranges::count(d, 0.0F);
}

TEST(FloatMode, OfAProductIsTheCallersOnAnyNumberOfThreads) {
  TempDir dir;
  auto engine = Engine::open({.database = dir / "kiln.db", .on_untuned = [](const auto&) {}});
  ASSERT_TRUE(engine);
  const int most = engine->impl().device.compute_units;
  for (const int threads : {1, std::min(2, most)}) {
    {
      const Mode flush(flushing());
      EXPECT_EQ(zeros(*engine, threads), 128 * 128) << threads << " threads, first call";
    }
    EXPECT_EQ(engine->impl().store->maintenance().stats()->at(0).quarantined, 0)
        << "verified in the usual mode";
    EXPECT_EQ(zeros(*engine, threads), 0) << threads << " threads";
    {
      const Mode flush(flushing());
      EXPECT_EQ(zeros(*engine, threads), 128 * 128) << threads << " threads again";
    }
  }
}

}  // namespace kiln::float_mode_test
