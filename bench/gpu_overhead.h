// What kiln costs around its kernels on a GPU: the call, and the start of a process. Like
// bench/overhead.h; knows the Engine's insides as far as a bare launch of a kernel needs them.
#pragma once

#include "bench/overhead.h"

namespace kiln {

/// Host time of one call, none of them waited for: cuLaunchKernelEx with arguments made beforehand,
/// Plan::run, Engine::gemm, in interleaved batches. `device` is "cuda:N". Errors: those of
/// Engine::plan, not_tuned (no kernel of ours to launch), device.
Result<Overhead> measure_gpu_overhead(Engine& engine, const Gemm& gemm, const std::string& device);

/// The device's context is made first and not counted; then Engine::open, and gemm() until its
/// result is there. The result is checked on the host, without a compiler. Meant for a process that
/// has done nothing else yet.
Result<ColdStart> gpu_cold_start_here(const Gemm& gemm, const OpenOptions& open);

}  // namespace kiln
