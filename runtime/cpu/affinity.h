// How many cores this process may use and which, and in what order threads should take them: the
// one answer for all of kiln. Knows Linux.
#pragma once

#include <filesystem>
#include <vector>

namespace kiln {

/// The CPUs of each physical core that this process may use, cores in CPU order.
std::vector<std::vector<int>> allowed_cores();

/// CPUs that this process may use: those that any of its threads may run on, but for the pool's
/// own. A thread that was pinned says nothing about the process: OMP_PROC_BIND pins the main thread
/// to one CPU before main() begins. So the places of an OpenMP that is loaded count, too.
std::vector<int> process_cpus();
/// The same from masks that were read and from OpenMP's places (none: its threads are not bound).
std::vector<int> process_cpus(const std::vector<std::vector<int>>& masks,
                              const std::vector<int>& places);

/// A thread of the pool tells that its mask is kiln's doing. Lock-free.
void note_pool_thread();
/// In a forked child: none of them is here.
void forget_pool_threads();

/// CPUs' worth of time that the control groups of this process grant it, versions 1 and 2, or
/// infinity. `root` is where proc and sys are.
double cpu_quota(const std::filesystem::path& root = "/");
/// Threads of a call that names none: as many as there are cores, but no more than the quota pays
/// for, to the nearest number. Threads beyond it are all stopped for the rest of each period.
int threads_for(int cores, double quota);

/// Cores of the process, and threads_for() them: as they were last read. The first call reads.
int core_count();
int usable_threads();
/// Reads masks and quota again, since both may change while a process runs.
void reread_cores();

/// While one lives, this thread may run wherever the process may: a child process begins with the
/// mask of the thread that starts it.
class WholeMask {
 public:
  WholeMask();
  ~WholeMask();
  WholeMask(const WholeMask&) = delete;
  WholeMask& operator=(const WholeMask&) = delete;

 private:
  std::vector<int> before_;  // empty: nothing was changed
};

/// The same from a plain list of CPUs, with the siblings of each as the system names them.
std::vector<std::vector<int>> group_by_core(const std::vector<int>& cpus);

/// Where the helpers of a thread that runs on `home` should be pinned, best first: one CPU of every
/// other core, nearest number first, then the remaining hyperthreads; never `home` itself.
std::vector<int> placement(const std::vector<std::vector<int>>& cores, int home);

}  // namespace kiln
