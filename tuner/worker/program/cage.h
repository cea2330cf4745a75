// The cage of the process that runs candidates: a filter of system calls, put over every thread
// before a candidate's code is loaded, that cannot be taken off again. Knows system calls; knows no
// requests.
#pragma once

#include <cstdint>
#include <string>

#include "tuner/worker/protocol.h"

namespace kiln {

/// host: for code that runs in this process. What the worker itself needs is allowed (memory,
///   threads, clocks, its socket, its memory files, signals to itself); any other call ends the
///   process, and `status` says which call it was. No path is ever opened: the dynamic linker's
///   open of a memory file is answered with a copy of the descriptor, the C library's of the files
///   that count processors with ENOENT.
/// gpu: for code that runs on a GPU, beside which the driver opens device files, makes threads and
///   talks to its daemons when it likes. Everything is allowed but what only an intruder would do
///   (debugging or reading other processes, other programs, sockets of a network, other users,
///   mounts, kernel interfaces); those calls fail with EPERM.
enum class CageKind { host, gpu };

/// Leaves address space for operands of `set_bytes` a set, references in double and a kernel's
/// workspace, above what is mapped already; a candidate that asks for more is refused before it can
/// hurt the machine. Sets the hard limit too, so that it cannot be raised again.
void limit_address_space(std::int64_t set_bytes);

/// Puts this process into its cage. Everything that takes a path must have been opened before.
/// Returns what goes into the worker's answer: "host", "gpu", or "none: " and the reason, where the
/// kernel refuses or the build is sanitized (its runtime opens files as it likes); the worker then
/// runs without one.
std::string enter_cage(CageKind kind, WorkerStatus* status);

}  // namespace kiln
