// `kiln bench` on a GPU: every shape raced against the vendor's library, each of its proposals
// timed, all results checked on the device. The same report as bench/bench.h. Knows no command
// line.
#pragma once

#include "bench/bench.h"

namespace kiln {

/// `options.open.device` is "cuda:N" or "hip:N"; the peer is cuBLASLt, on NVIDIA's GPUs; thread
/// counts do not apply. Needs the device's compiler, for the kernels that check. Errors: those of
/// Engine::open, device, compiler.
Result<BenchReport> run_gpu_bench(const BenchOptions& options);

}  // namespace kiln
