#include "runtime/cpu/affinity.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <string>

#include "runtime/cgroups.h"
#include "runtime/env.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// Calls `f(set, bytes)` with sets that grow until it returns true: the kernel refuses one smaller
/// than its own, whose size is not reported.
template <typename F>
void with_set(F&& f) {
  for (int bits = 1024; bits <= 1 << 20; bits *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(bits),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    if (f(set.get(), CPU_ALLOC_SIZE(bits))) return;
  }
}

/// Empty where the thread has ended.
std::vector<int> mask_of(pid_t thread) {
  std::vector<int> cpus;
  with_set([&](cpu_set_t* set, std::size_t bytes) {
    if (sched_getaffinity(thread, bytes, set) != 0) return errno != EINVAL;
    for (int cpu = 0; cpu < static_cast<int>(bytes * 8); ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    return true;
  });
  return cpus;
}

void set_mask_of_this_thread(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  with_set([&](cpu_set_t* set, std::size_t bytes) {
    if (static_cast<std::size_t>(cpus.back()) >= bytes * 8) return false;
    CPU_ZERO_S(bytes, set);
    for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
    static_cast<void>(sched_setaffinity(0, bytes, set));
    return true;
  });
}

// Numbers of the pool's threads, which never end. Those beyond the table count as the program's.
constexpr std::size_t kMostPoolThreads = 4096;
std::array<std::atomic<pid_t>, kMostPoolThreads> g_pool_threads{};
std::atomic<std::size_t> g_pool_count{0};

bool is_pool_thread(pid_t thread) {
  const std::size_t count = std::min(g_pool_count.load(), kMostPoolThreads);
  return std::find(g_pool_threads.begin(), g_pool_threads.begin() + count, thread) !=
         g_pool_threads.begin() + count;
}

/// Masks of all threads but the pool's. More threads than that are masks enough.
std::vector<std::vector<int>> masks_of_threads() {
  constexpr int kMostThreads = 1024;
  std::vector<std::vector<int>> masks;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), ::closedir);
  int looked = 0;
  while (const dirent* entry = tasks ? ::readdir(tasks.get()) : nullptr) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread <= 0 || is_pool_thread(thread)) continue;
    if (++looked > kMostThreads) break;
    masks.push_back(mask_of(thread));
  }
  if (masks.empty()) masks.push_back(mask_of(getpid()));  // /proc is not mounted
  return masks;
}

/// A function of an OpenMP that is loaded, by the program or by one of its modules. Null: none is.
void* openmp_function(const char* name) {
  if (void* const found = dlsym(RTLD_DEFAULT, name)) return found;
  for (const char* library : {"libgomp.so.1", "libiomp5.so", "libomp.so.5"})
    if (void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD)) {
      void* const found = dlsym(handle, name);
      dlclose(handle);
      return found;
    }
  return nullptr;
}

/// Empty where the program has no OpenMP, or one that binds no threads. It is asked only where it
/// was told to bind: some initialise themselves when they are asked.
std::vector<int> openmp_places() {
  constexpr std::array kBinding{"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  if (std::ranges::none_of(kBinding, [](const char* name) { return env(name) != nullptr; }))
    return {};
  const auto count_of = reinterpret_cast<int (*)()>(openmp_function("omp_get_num_places"));
  const auto size_of = reinterpret_cast<int (*)(int)>(openmp_function("omp_get_place_num_procs"));
  const auto read =
      reinterpret_cast<void (*)(int, int*)>(openmp_function("omp_get_place_proc_ids"));
  std::vector<int> cpus;
  if (count_of == nullptr || size_of == nullptr || read == nullptr) return cpus;
  const int places = count_of();
  for (int place = 0; place < places; ++place) {
    std::vector<int> of_place(static_cast<std::size_t>(std::max(0, size_of(place))));
    if (of_place.empty()) continue;
    read(place, of_place.data());
    cpus.insert(cpus.end(), of_place.begin(), of_place.end());
  }
  return cpus;
}

// Topology does not change while a process runs; a file for each CPU takes a millisecond in all.
constexpr int kMostRemembered = 4096;
std::array<std::atomic<int>, kMostRemembered> g_core_of{};  // + 1; 0: not read yet

/// The quota of a group and of each above it, in CPUs.
double quota_in(const fs::path& top, fs::path group, bool second) {
  double least = kNoQuota;
  for (;; group = group.parent_path()) {
    const fs::path folder = top / group.relative_path();
    double quota = 0, period = 0;
    if (second) {
      std::ifstream file(folder / "cpu.max");  // "max 100000"
      if (file >> quota >> period && quota > 0 && period > 0)
        least = std::min(least, quota / period);
    } else {
      std::ifstream quotas(folder / "cpu.cfs_quota_us"), periods(folder / "cpu.cfs_period_us");
      if (quotas >> quota && periods >> period && quota > 0 && period > 0)
        least = std::min(least, quota / period);
    }
    if (group == group.parent_path()) return least;
  }
}

/// The lowest CPU number among the hyperthreads of `cpu`'s core: the same for all of them.
int read_core_of(int cpu) {
  std::ifstream file(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  int first = cpu;
  if (!(file >> first)) return cpu;
  return first;
}

int core_of(int cpu) {
  if (cpu >= kMostRemembered) return read_core_of(cpu);
  auto& known = g_core_of[static_cast<std::size_t>(cpu)];
  if (known.load(std::memory_order_relaxed) == 0)
    known.store(read_core_of(cpu) + 1, std::memory_order_relaxed);
  return known.load(std::memory_order_relaxed) - 1;
}

std::atomic<int> g_cores{0}, g_threads{0};

}  // namespace

std::vector<int> process_cpus(const std::vector<std::vector<int>>& masks,
                              const std::vector<int>& places) {
  std::set<int> cpus(places.begin(), places.end());
  for (const auto& mask : masks) cpus.insert(mask.begin(), mask.end());
  if (cpus.empty()) cpus.insert(0);
  return {cpus.begin(), cpus.end()};
}

std::vector<int> process_cpus() { return process_cpus(masks_of_threads(), openmp_places()); }

void note_pool_thread() {
  const std::size_t place = g_pool_count.fetch_add(1);
  if (place < kMostPoolThreads)
    g_pool_threads[place].store(static_cast<pid_t>(::syscall(SYS_gettid)));
}

void forget_pool_threads() { g_pool_count.store(0); }

double cpu_quota(const fs::path& root) {
  double least = kNoQuota;
  for_each_control_group(root, "cpu", [&](const ControlGroup& own) {
    least = std::min(least, quota_in(own.mount, own.group, own.second));
  });
  return least;
}

int threads_for(int cores, double quota) {
  if (quota >= cores) return cores;
  return std::max(1, static_cast<int>(std::lround(quota)));
}

void reread_cores() {
  const int cores = static_cast<int>(allowed_cores().size());
  g_cores.store(cores, std::memory_order_relaxed);
  g_threads.store(threads_for(cores, cpu_quota()), std::memory_order_relaxed);
}

int core_count() {
  if (g_cores.load(std::memory_order_relaxed) == 0) reread_cores();
  return g_cores.load(std::memory_order_relaxed);
}

int usable_threads() {
  if (const int known = g_threads.load(std::memory_order_relaxed); known != 0) return known;
  reread_cores();
  return g_threads.load(std::memory_order_relaxed);
}

WholeMask::WholeMask() {
  std::vector<int> own = mask_of(0);
  const std::vector<int> whole = process_cpus();
  if (own == whole) return;
  before_ = std::move(own);
  set_mask_of_this_thread(whole);
}
WholeMask::~WholeMask() { set_mask_of_this_thread(before_); }

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
