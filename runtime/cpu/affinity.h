// Which CPUs this process may use, and in what order threads should take them. Knows Linux.
#pragma once

#include <vector>

namespace kiln {

/// The CPUs of each physical core in the process's affinity mask, cores in CPU order.
std::vector<std::vector<int>> allowed_cores();

/// The same from a plain list of CPUs, with the siblings of each as the system names them.
std::vector<std::vector<int>> group_by_core(const std::vector<int>& cpus);

/// Where the helpers of a thread that runs on `home` should be pinned, best first: one CPU of every
/// other core, nearest number first, then the remaining hyperthreads; never `home` itself.
std::vector<int> placement(const std::vector<std::vector<int>>& cores, int home);

}  // namespace kiln
