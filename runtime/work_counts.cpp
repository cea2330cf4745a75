#include "runtime/work_counts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime/env.h"

namespace kiln {
namespace {

constexpr std::array<std::string_view, 7> kNames{
    "clang", "nvrtc", "hiprtc", "emulated_blocks", "searches", "candidates", "workers"};

std::array<std::atomic<std::int64_t>, kNames.size()> counts;

/// From the environment that the process began with; null: nobody wants the counts.
const char* file = nullptr;

void write_counts() {
  std::string line = "processes=1";
  for (std::size_t i = 0; i < kNames.size(); ++i)
    line += fmt::format(" {}={}", kNames[i], counts[i].load());
  line += '\n';
  const int out = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) return;
  (void)!::write(out, line.data(), line.size());
  ::close(out);
}

/// The line is written at the end of the process. A forked child begins at zero: what its parent
/// did is the parent's.
[[maybe_unused]] const bool counting = [] {
  const char* named = env("KILN_WORK_COUNTS");
  if (named == nullptr || *named == '\0') return false;
  file = ::strdup(named);
  pthread_atfork(nullptr, nullptr, [] {
    for (auto& count : counts) count = 0;
  });
  return std::atexit(write_counts) == 0;
}();

}  // namespace

void count_work(Work work, std::int64_t times) {
  counts[static_cast<std::size_t>(work)].fetch_add(times, std::memory_order_relaxed);
}

}  // namespace kiln
