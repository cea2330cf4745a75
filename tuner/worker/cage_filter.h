// The filters of the cages as programs of classic BPF. Pure functions of a process's number.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <vector>

namespace kiln {

/// Allows what a worker on the CPU needs. Asks for a trap (SIGSYS) on every other call, so that the
/// handler can serve or report it; a call by another ABI ends the process.
std::vector<sock_filter> host_filter(pid_t self);

/// Refuses with EPERM what no driver of a GPU needs; allows the rest.
std::vector<sock_filter> gpu_filter(pid_t self);

}  // namespace kiln
