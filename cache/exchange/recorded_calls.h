// The calls file: how often programs called each problem, and how long that took. Many processes
// add to one file, and its readers see whole additions only. Knows SQLite; nothing of who counts.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kiln/gemm.hpp"

namespace kiln {

/// What one row may hold; sums stop there. A count beyond it is nothing that a program counted.
inline constexpr std::int64_t kMostCalls = std::int64_t{1} << 62;
inline constexpr double kMostCallNs = 1e24;
inline constexpr int kMostCallThreads = 1 << 20;
constexpr std::int64_t sum_of_calls(std::int64_t x, std::int64_t y) {
  return std::min(x, kMostCalls - std::min(y, kMostCalls)) + std::min(y, kMostCalls);
}

/// Calls of one problem on one device and number of threads.
struct RecordedCalls {
  std::string device;  // fingerprint, whose compute units are the threads of the call
  Gemm gemm;           // normalised
  int threads = 1;
  std::int64_t calls = 0;
  std::int64_t timed_calls = 0;  // of these, those that `timed_ns` stands for
  double timed_ns = 0;
  auto operator<=>(const RecordedCalls&) const = default;

  /// Mean time of a call; 0: none was timed.
  double ns_per_call() const {
    return timed_calls > 0 ? timed_ns / static_cast<double>(timed_calls) : 0;
  }
  double total_ns() const { return ns_per_call() * static_cast<double>(calls); }
  /// Adds the counts of another row.
  void add(const RecordedCalls& more) {
    calls = sum_of_calls(calls, more.calls);
    timed_calls = sum_of_calls(timed_calls, more.timed_calls);
    timed_ns = std::min(timed_ns + more.timed_ns, kMostCallNs);
  }
};

/// How long a writer waits for others: in between it may try again later, at its end it may not.
inline constexpr std::chrono::milliseconds kShortWait{200}, kLongWait{5000};

/// Makes the file when it is absent; one that is not a calls file stays as it is. Errors: database,
/// naming the file (another program's, a newer kiln's, damaged, not writable, busy).
Status prepare_calls(const std::filesystem::path& file);
/// Adds all of it or nothing. Errors: as prepare_calls().
Status add_calls(const std::filesystem::path& file, std::span<const RecordedCalls> calls,
                 std::chrono::milliseconds wait);
/// Everything in the file, most time first. Errors: bad_input (no such file), database, naming the
/// file (another program's, another version's, damaged, busy).
Result<std::vector<RecordedCalls>> read_calls(const std::filesystem::path& file,
                                              std::chrono::milliseconds wait = kLongWait);

}  // namespace kiln
