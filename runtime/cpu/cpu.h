// The CPU as a device: what it can do, its threads, and one launch of a kernel on them.
#pragma once

#include <cstdint>

#include "generator/problem/device_caps.h"
#include "generator/problem/problem.h"
#include "kiln/engine.hpp"
#include "kiln/error.hpp"
#include "runtime/cpu/kernel.h"

namespace kiln {

/// This machine with `threads` compute threads (0 = every core this process may use).
/// Errors: bad_input (threads out of 1..cores).
Result<DeviceCaps> detect_cpu(int threads = 0);

/// What this machine's cores can do. The first call asks for the right to use AMX's tiles, for all
/// threads of the process.
const CpuFeatures& cpu_features();

/// Arguments of a call, and how the caller's bias is stored: kernels read fp32 (fp64), so that a
/// bias of a 16-bit type is widened at each launch.
struct HostArgs : KilnArgs {
  HostArgs() = default;
  HostArgs(const KilnArgs& args) : KilnArgs(args) {}
  DType bias_type = DType::fp32;
  int products = 1;  // of A: a gate's two have biases of n values each, per column
  /// Whether the kernel raises the largest magnitude of D, which launch() clears before.
  bool finds_amax = false;
  /// Of a problem whose expression reduces, which follows the kernel, or stores no D: lives as long
  /// as the arguments.
  const Problem* reduced_of = nullptr;
  /// Of a grouped problem, whose kernel is called for each group: lives as long as the arguments.
  const Problem* groups_of = nullptr;
};

/// Problem arguments of one call (workspace and barrier left null). `problem` comes from
/// Problem::of(), `division` from the kernel's config (division_of(); the reference has none);
/// operands are the caller's, so this is where A and B are exchanged. For a packed problem
/// `operands.b` must already point at the packed bytes: PackedB is opaque here. Those of a grouped
/// problem keep a pointer to `problem`.
HostArgs make_args(const Problem& problem, const Operands& operands,
                   const KilnDivision& division = {});

/// Bytes of this thread's workspace that a call needs for which the kernel asks `workspace_bytes`.
std::int64_t bytes_of_call(const HostArgs& args, std::int64_t workspace_bytes);

/// The arguments as a kernel takes them: with this thread's workspace and barrier, valid until its
/// next call. Errors: device (no memory).
Result<KilnArgs> with_workspace(const HostArgs& args, std::int64_t workspace_bytes);

/// Clears the largest magnitude of D where the call finds one: before the first thread begins.
void clear_amax(const HostArgs& args);

/// How many of `threads` threads the kernel has work for: waking the others would cost a
/// microsecond. Of groups all of them: each may take groups of its own.
int threads_used(const HostKernel& kernel, const HostArgs& args, int threads);

/// Runs the kernel on `threads` threads of the persistent pool, the caller's being thread 0, and
/// returns when all are done. Uses this thread's workspace arena, which only ever grows: a repeated
/// call allocates nothing and takes no lock. Safe from many threads at once. Should the system
/// refuse to make a thread, the call runs on fewer. Errors: device (no memory for the workspace).
Status launch(const HostKernel& kernel, const HostArgs& args, int threads);

/// The same for a plan, which asked the kernel once how many threads it uses and for the bytes that
/// those need.
Status launch(const HostKernel& kernel, const HostArgs& args, int threads,
              std::int64_t workspace_bytes);
/// The same for code that no HostKernel owns.
Status launch(KilnGemmFn gemm, KilnWorkspaceFn ask_workspace, const HostArgs& args, int threads,
              std::int64_t workspace_bytes);

}  // namespace kiln
