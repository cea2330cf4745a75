// The CPU as a device: what it can do, its threads, and one launch of a kernel on them.
#pragma once

#include <cstdint>

#include "generator/problem/canonical.h"
#include "generator/problem/device_caps.h"
#include "kiln/engine.hpp"
#include "kiln/error.hpp"
#include "runtime/cpu/kernel.h"

namespace kiln {

/// This machine with `threads` compute threads (0 = every core this process may use).
/// Errors: bad_input (threads out of 1..cores).
Result<DeviceCaps> detect_cpu(int threads = 0);

/// Canonical arguments of one call (workspace and barrier left null). `problem` comes from
/// canonicalise(), `division` from the kernel's config (division_of(); the reference has none);
/// operands are the caller's, so this is where A and B are exchanged. For a packed problem
/// `operands.b` must already point at the packed bytes: PackedB is opaque here.
KilnArgs make_args(const Canonical& problem, const Operands& operands,
                   const KilnDivision& division = {});

/// How many of `threads` threads the kernel has work for: waking the others would cost a
/// microsecond.
int threads_used(const HostKernel& kernel, const KilnArgs& args, int threads);

/// Runs the kernel on `threads` threads of the persistent pool, the caller's being thread 0, and
/// returns when all are done. Uses this thread's workspace arena, which only ever grows: a repeated
/// call allocates nothing and takes no lock. Safe from many threads at once. Should the system
/// refuse to make a thread, the call runs on fewer. Errors: device (no memory for the workspace).
Status launch(const HostKernel& kernel, const KilnArgs& args, int threads);

/// The same for a plan, which asked the kernel once how many threads it uses and for the bytes that
/// those need.
Status launch(const HostKernel& kernel, const KilnArgs& args, int threads,
              std::int64_t workspace_bytes);
/// The same for code that no HostKernel owns.
Status launch(KilnGemmFn gemm, KilnWorkspaceFn ask_workspace, KilnArgs args, int threads,
              std::int64_t workspace_bytes);

}  // namespace kiln
