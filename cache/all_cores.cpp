#include "cache/all_cores.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/cpu/affinity.h"

namespace kiln {

void on_all_cores(std::size_t count, const std::function<void(std::size_t)>& one) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto work = [&] {
    try {
      for (std::size_t i; (i = next++) < count;) one(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    const auto cores = static_cast<std::size_t>(usable_threads());
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(cores, count); ++i) others.emplace_back(work);
    work();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace kiln
