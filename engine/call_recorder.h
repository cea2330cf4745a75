// Which problems a program calls, how often, and how long that takes: counters of one process, and
// the thread that adds them to the calls file. Knows no kernels.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cache/exchange/recorded_calls.h"
#include "engine/call_counter.h"
#include "generator/problem/device_caps.h"
#include "kiln/engine.hpp"

namespace kiln {

/// Thread-safe. What was counted is added to the file after 0.1 s, then at intervals that double up
/// to 10 s, when the recorder is destroyed, and when the process exits. A forked child counts from
/// zero, for itself.
class CallRecorder {
 public:
  /// Names no file: what is counted stays here.
  static constexpr const char* kMemory = ":memory:";
  /// A file that cannot be written is an Error here, and later a warning, once for each message.
  static Result<std::shared_ptr<CallRecorder>> open(std::filesystem::path file, DeviceCaps device);
  ~CallRecorder();
  CallRecorder(const CallRecorder&) = delete;
  CallRecorder& operator=(const CallRecorder&) = delete;

  /// So many problems are counted, each on a number of threads; at 2.5 KB each, 25 MB.
  static constexpr std::size_t kMostProblems = 10'000;
  /// The counter of a problem, in its normal spelling. It lives as long as the recorder. Behind
  /// kMostProblems it is one for all others, which is neither in counts() nor in the file; a
  /// warning says so once.
  CallCounter& counter(const Gemm& gemm, int threads);
  /// All that was counted, in the order of problems.
  std::vector<CallCount> counts();
  /// Adds what was counted since the last time to the file. What cannot be added is kept for the
  /// next time.
  void flush(std::chrono::milliseconds wait = kLongWait);
  /// Starts the thread where there is none: in a forked child, too.
  void keep_flushing() {
    if (!running_.load(std::memory_order_relaxed)) start_thread();
  }

 private:
  struct Counted {
    CallCounter counter;
    CallCounter::Counts written;
  };
  friend struct LiveRecorders;

  CallRecorder(std::filesystem::path file, DeviceCaps device);
  void start_thread();
  void run_thread();
  /// Both under the mutex.
  Status add_fresh(std::chrono::milliseconds wait);
  void flush_or_warn(std::chrono::milliseconds wait);
  void begin_in_child();

  const std::filesystem::path file_;  // empty: none
  const DeviceCaps device_;
  std::mutex mutex_;
  std::map<std::pair<Gemm, int>, std::unique_ptr<Counted>> counted_;
  CallCounter others_;
  bool others_told_ = false;
  int failures_ = 0;    // to add, since the last success
  std::string warned_;  // the last message
  bool closing_ = false;
  std::condition_variable closed_;
  std::atomic<bool> running_{false};
  std::thread thread_;
};

}  // namespace kiln
