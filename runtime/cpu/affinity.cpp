#include "runtime/cpu/affinity.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>

namespace kiln {
namespace {

/// The mask of the main thread: a caller that pinned itself must not confine the whole pool.
std::vector<int> process_cpus() {
  std::vector<int> cpus;
  // The kernel refuses a mask smaller than its own, whose size is not reported: grow until it fits.
  for (int bits = 1024; bits <= 1 << 20; bits *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(bits),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(bits);
    if (sched_getaffinity(getpid(), bytes, set.get()) != 0) continue;
    for (int cpu = 0; cpu < bits; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
    break;
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

/// The lowest CPU number among the hyperthreads of `cpu`'s core: the same for all of them.
int core_of(int cpu) {
  std::ifstream file(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  int first = cpu;
  if (!(file >> first)) return cpu;
  return first;
}

}  // namespace

std::vector<std::vector<int>> group_by_core(const std::vector<int>& cpus) {
  std::vector<std::vector<int>> cores;
  std::vector<int> names;
  for (int cpu : cpus) {
    const int name = core_of(cpu);
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      names.push_back(name);
      cores.push_back({cpu});
    } else {
      cores[static_cast<std::size_t>(at - names.begin())].push_back(cpu);
    }
  }
  return cores;
}

std::vector<std::vector<int>> allowed_cores() { return group_by_core(process_cpus()); }

std::vector<int> placement(const std::vector<std::vector<int>>& cores, int home) {
  std::size_t at = 0, hyperthreads = 0;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    hyperthreads = std::max(hyperthreads, cores[i].size());
    if (std::find(cores[i].begin(), cores[i].end(), home) != cores[i].end()) at = i;
  }
  std::vector<int> order;
  for (std::size_t level = 0; level < hyperthreads; ++level) {
    // The caller's own core comes last of each round, for its other hyperthread.
    for (std::size_t step = 1; step <= cores.size(); ++step) {
      const std::vector<int>& core = cores[(at + step) % cores.size()];
      if (level < core.size() && core[level] != home) order.push_back(core[level]);
    }
  }
  return order;
}

}  // namespace kiln
