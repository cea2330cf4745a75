// Problems that are tuned after the calls that met them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "kiln/gemm.hpp"

namespace kiln {

/// A queue, and one thread that is made when it is first needed.
class BackgroundQueue {
 public:
  struct Job {
    Gemm gemm;
    int threads;
  };
  /// `work` may take minutes, and ends early once closing() is true.
  explicit BackgroundQueue(std::function<void(const Job&)> work) : work_(std::move(work)) {}
  ~BackgroundQueue() { close(); }

  /// After close() nothing is added.
  void add(const Job& job);
  /// No further job begins. Waits for the one under way.
  void close();
  bool closing() const { return closing_.load(); }
  /// Whether the thread was made.
  bool started() const { return thread_.joinable(); }
  /// In a forked child: the jobs and the thread are the parent's.
  void begin_in_child();

 private:
  void run();

  std::function<void(const Job&)> work_;
  std::mutex mutex_;  // of jobs_; nothing is logged under it
  std::condition_variable_any filled_;
  std::deque<Job> jobs_;
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace kiln
