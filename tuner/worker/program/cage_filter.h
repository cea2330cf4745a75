// The filters of the cages as programs of classic BPF. Pure functions of the numbers of a process
// and its threads.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <span>
#include <vector>

namespace kiln {

/// Allows what a worker on the CPU needs. Asks for a trap (SIGSYS) on every other call, so that the
/// handler can serve or report it; a call by another ABI ends the process. `threads` are those of
/// the pool, which may move from core to core.
std::vector<sock_filter> host_filter(pid_t self, std::span<const pid_t> threads);

/// Refuses with EPERM what no driver of a GPU needs; allows the rest.
std::vector<sock_filter> gpu_filter(pid_t self);

}  // namespace kiln
