// A forked child goes on with what its parent's engine knows, whatever other threads of the parent
// were doing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_impl.h"
#include "runtime/fork_gate.h"
#include "runtime/log.h"
#include "runtime/quiet_lock.h"
#include "support/child.h"
#include "support/eventually.h"
#include "support/few.h"
#include "support/opened_engine.h"

namespace kiln::fork_test {

/// Repeats `body` on a thread of its own until the end of the scope; returns once it has run.
class Repeated {
 public:
  explicit Repeated(std::function<void(int)> body)
      : thread_([this, body = std::move(body)] {
          while (!ended_) {
            body(times_);
            ++times_;
          }
        }) {
    test::eventually([this] { return times_ > 0; });
  }
  ~Repeated() {
    ended_ = true;
    thread_.join();
  }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

 private:
  std::atomic<bool> ended_{false};
  std::atomic<int> times_{0};
  std::thread thread_;
};

bool multiplies(Engine& engine, int m, int n, int k) {
  const std::vector<float> a(static_cast<std::size_t>(m * k), 1);
  const std::vector<float> b(static_cast<std::size_t>(k * n), 1);
  std::vector<float> d(static_cast<std::size_t>(m * n));
  const Status ran =
      engine.gemm(Gemm::row_major(m, n, k), {.a = a.data(), .b = b.data(), .d = d.data()});
  return ran && d.front() == static_cast<float>(k) && d.back() == static_cast<float>(k);
}

TEST(Fork, FindsNoQuietLockHeld) {
  std::mutex mutex;
  const Repeated held([&](int) {
    const QuietLock lock(mutex);
    for (int i = 0; i < 10000; ++i) std::this_thread::yield();  // so that a fork meets it
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(test::in_child([&] { return mutex.try_lock(); })) << i;
}

TEST(Fork, FindsNoLockOfTheLogHeld) {
  EXPECT_TRUE(test::in_child([] {
    test::end_when_hung();
    std::atomic<int> told{0};
    set_log([&](LogLevel, std::string_view) { ++told; });
    bool good = true;
    {
      const Repeated logs([](int i) { log::warn("message {}", i); });
      for (int i = 0; i < 20; ++i)
        good = good && test::in_child([] {
                 test::end_when_hung();
                 log::warn("from the child");
                 set_log({});  // waits for callbacks of threads that are here, and only for those
                 return true;
               });
    }
    set_log({});
    return good;
  }));
}

// ThreadSanitizer ends a child that starts threads after a fork of several, whoever is right.
#if !defined(__SANITIZE_THREAD__)
TEST(Fork, DoesNotWaitForASearch) {
  test::Opened kiln;
  std::atomic<bool> held{false}, forked{false};
  std::thread search([&] {
    const std::lock_guard lock(kiln->impl().tuning.searching());
    held = true;
    test::eventually([&] { return forked.load(); });
  });
  test::eventually([&] { return held.load(); });
  EXPECT_TRUE(test::in_child([&] {
    test::end_when_hung();
    return kiln->tune(Gemm::row_major(8, 9, 10), test::few(4)).has_value();
  }));
  forked = true;
  search.join();
}

TEST(Fork, ChildrenMultiplyWhateverOtherThreadsResolve) {
  test::Opened kiln;
  ASSERT_TRUE(multiplies(*kiln.engine, 60, 60, 60));
  std::atomic<bool> good{true};
  const Repeated plans([&](int i) {
    if (!multiplies(*kiln.engine, 1 + i % 90, 2 + i % 7, 5 + i % 11)) good = false;
  });
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(test::in_child([&] {
      test::end_when_hung();
      return multiplies(*kiln.engine, 60, 60, 60);
    })) << "a shape that the parent knows";
    EXPECT_TRUE(test::in_child([&] {
      test::end_when_hung();
      return multiplies(*kiln.engine, 100 + i, 50, 61);
    })) << "a new one";
  }
  EXPECT_TRUE(good);
}

TEST(Fork, AChildMayCloseAnEngineThatTunesInTheBackground) {
  test::Opened kiln(Policy::tune_in_background);
  ASSERT_TRUE(multiplies(*kiln.engine, 20, 21, 22));
  test::eventually([&] { return kiln->impl().background.started(); });
  EXPECT_TRUE(test::in_child([&] {
    test::end_when_hung();
    kiln.engine.reset();  // joins no thread that is not here
    return true;
  }));
}
#endif

std::string order;

TEST(Fork, TakesLocksThatOthersWaitForLast) {
  EXPECT_TRUE(test::in_child([] {
    ForkGate::at_fork({[] { order += "leaf "; }, [] { order += "/leaf "; }, nullptr},
                      ForkGate::Locks::leaves);
    ForkGate::at_fork({[] { order += "other "; }, [] { order += "/other "; }, nullptr});
    {
      const OwnFork own;
      if (!test::in_child([] { return true; }) || !order.empty()) return false;
    }
    return test::in_child([] { return true; }) && order == "other leaf /leaf /other ";
  }));
}

}  // namespace kiln::fork_test
