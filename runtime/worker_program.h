// The helper program kiln-worker: where it lies, and its start. Knows nothing of what it does.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <span>
#include <string>

#include "kiln/error.hpp"

namespace kiln {

/// $KILN_WORKER; else `kiln-worker` beside the running code (dladdr) or the executable, or in
/// ../bin, ../libexec/kiln or ../../libexec/kiln from there. Errors: device, naming the paths
/// tried.
Result<std::filesystem::path> find_worker();

/// Starts it with one argument and those variables of this process's environment that it needs.
/// `descriptors` are 3, 4, … there, and it has no others; it has no input, its output goes nowhere,
/// its messages where this process's go; it is in a process group of its own, so that a terminal's
/// Ctrl-C is for this process, and may run on all cores. Returns its pid. Errors: device.
Result<pid_t> start_worker(const std::filesystem::path& executable, std::string argument,
                           std::span<const int> descriptors);

}  // namespace kiln
