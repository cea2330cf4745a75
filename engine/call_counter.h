// The counts of one problem's calls. Counting takes no lock, allocates nothing and does no I/O;
// a few calls are timed and stand for the others. Knows no file.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace kiln {

/// Calls of one problem by all threads of this process.
class CallCounter {
 public:
  struct Counts {
    std::int64_t calls = 0, timed_calls = 0;
    double timed_ns = 0;
  };
  /// What the calls of some threads are counted in. Relaxed throughout: they are numbers only.
  struct alignas(128) Shard {
    std::atomic<std::int64_t> calls{0};
    std::atomic<std::int64_t> next_timed{0};   // timed once `calls` is there
    std::atomic<std::int64_t> stood_for{0};    // `calls` when one was timed last
    std::atomic<std::int64_t> timed_calls{0};  // for which timed ones stand
    std::atomic<std::int64_t> timed_ns{0};     // of these
  };

  /// The calling thread's.
  Shard& shard() { return shards_[thread_number() % kShards]; }

  /// Whether the clock is to be looked at before and after the next call.
  static bool is_timed(const Shard& shard) {
    return shard.calls.load(kRelaxed) >= shard.next_timed.load(kRelaxed);
  }
  /// One call that was not timed.
  static void add(Shard& shard) { shard.calls.fetch_add(1, kRelaxed); }
  /// One call that took `time`; it stands for those since the last timed one. Short calls are timed
  /// every kInterval-th time, for two looks at the clock are not short beside them.
  static void add_timed(Shard& shard, std::chrono::nanoseconds time) {
    const std::int64_t calls = shard.calls.fetch_add(1, kRelaxed) + 1;
    const std::int64_t weight = calls - shard.stood_for.exchange(calls, kRelaxed);
    shard.next_timed.store(calls + (time >= kLong ? 0 : kInterval - 1), kRelaxed);
    if (weight <= 0) return;  // another thread of this shard was timed meanwhile
    shard.timed_calls.fetch_add(weight, kRelaxed);
    shard.timed_ns.fetch_add(weight * time.count(), kRelaxed);
  }
  /// One call that is known to take `ns`, not timed (on a GPU that would be to wait for it).
  static void add_known(Shard& shard, double ns) {
    shard.calls.fetch_add(1, kRelaxed);
    if (!(ns > 0)) return;
    shard.timed_calls.fetch_add(1, kRelaxed);
    shard.timed_ns.fetch_add(nanoseconds_of(ns), kRelaxed);
  }
  /// Of what may come from a file or a caller: at most eleven days, so that sums do not overflow.
  static std::int64_t nanoseconds_of(double ns) {
    return static_cast<std::int64_t>(std::min(ns, 1e15));
  }

  /// The sum over all threads so far.
  Counts counts() const {
    Counts sum;
    for (const Shard& shard : shards_) {
      sum.calls += shard.calls.load(kRelaxed);
      sum.timed_calls += shard.timed_calls.load(kRelaxed);
      sum.timed_ns += static_cast<double>(shard.timed_ns.load(kRelaxed));
    }
    return sum;
  }
  /// The next call of each thread is timed, and stands for none before it.
  void begin_again() {
    for (Shard& shard : shards_) {
      shard.next_timed.store(0, kRelaxed);
      shard.stood_for.store(shard.calls.load(kRelaxed), kRelaxed);
    }
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  static constexpr unsigned kShards = 16;
  static constexpr std::int64_t kInterval = 64;
  static constexpr std::chrono::microseconds kLong{5};

  static unsigned thread_number() {
    static std::atomic<unsigned> threads{0};
    static thread_local const unsigned mine = threads.fetch_add(1, kRelaxed);
    return mine;
  }

  std::array<Shard, kShards> shards_;
};

}  // namespace kiln
