#include "cache/all_cores.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace kiln {

void on_all_cores(std::size_t count, const std::function<void(std::size_t)>& one) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < count;) one(i);
  };
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min(cores, count); ++i) others.emplace_back(work);
  work();
}

}  // namespace kiln
