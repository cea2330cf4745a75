// What kiln costs around its kernels: the call and the start. Knows the Engine's insides
// as far as a direct call of a kernel needs them.
#pragma once

#include <string>
#include <vector>

#include "kiln/engine.hpp"

namespace kiln {

/// One call of the same kernel three ways, interleaved; medians in nanoseconds.
struct Overhead {
  Gemm gemm;
  double direct_ns = 0;  // the kernel's own function or launch, arguments made beforehand
  double plan_ns = 0;    // Plan::run
  double gemm_ns = 0;    // Engine::gemm
};

/// On one thread; on a GPU, the host's time of calls that are not waited for. Errors: those of
/// Engine::plan, not_tuned (the problem has no generated kernel), device.
Result<Overhead> measure_overhead(Engine& engine, const Gemm& gemm, const std::string& device);

/// The start of a process: Engine::open, then the first gemm(), checked.
struct ColdStart {
  double open_ns = 0, first_gemm_ns = 0;
  Match match = Match::reference;
  bool verified = false;
  std::vector<std::string> compiler_files;  // loaded afterwards, by itself or a server
};

/// Meant for a process that has done nothing else yet. A GPU's context is made first and not
/// counted. Errors: those of Engine::open and gemm().
Result<ColdStart> cold_start_here(const Gemm& gemm, const OpenOptions& open, int threads);

/// `cold_start_here` in `runs` processes of this program, which `arguments` must lead there and
/// which must print cold_start_line(). The medians of the times; `match`, `verified` and
/// compiler_files of the worst run. Errors: device (a child failed; the message says how).
Result<ColdStart> measure_cold_start(const std::vector<std::string>& arguments, int runs);
std::string cold_start_line(const ColdStart& result);

}  // namespace kiln
