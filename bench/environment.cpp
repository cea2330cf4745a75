#include "bench/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "runtime/env.h"

namespace kiln {
namespace {

constexpr const char* kMarker = "KILN_PEER_ENVIRONMENT";

Result<std::vector<std::string>> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  if (!file) return fail(ErrorCode::device, "cannot read /proc/self/cmdline");
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < all.size();) {
    arguments.emplace_back(all.c_str() + at);
    at += arguments.back().size() + 1;
  }
  return arguments;
}

}  // namespace

bool cpu_has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

PeerEnvironment peer_environment() {
  PeerEnvironment e;
  // Machines preset these to older cores, which halves OpenBLAS; unset, it looks at the CPU itself.
  // The thread counts are given call by call through each library's own interface, and a binding
  // or an instruction-set cap meant for another program would handicap one peer only.
  e.unset = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS",
             "OMP_NUM_THREADS",   "OMP_DYNAMIC",      "OMP_THREAD_LIMIT",     "OMP_WAIT_POLICY",
             "OMP_PROC_BIND",     "OMP_PLACES",       "GOMP_CPU_AFFINITY",    "BLIS_NUM_THREADS",
             "BLIS_JC_NT",        "BLIS_PC_NT",       "BLIS_IC_NT",           "BLIS_JR_NT",
             "BLIS_IR_NT",        "BLIS_ARCH_TYPE",   "DNNL_MAX_CPU_ISA",     "ONEDNN_MAX_CPU_ISA",
             "DNNL_VERBOSE",      "ONEDNN_VERBOSE",   "LIBXSMM_TARGET",       "LIBXSMM_VERBOSE"};
  // Worker threads spin after a call. Some 50 us keeps them hot through one library's timed batch
  // and has them asleep when the next library's begins; the defaults (milliseconds) would take a
  // core from the next peer. 2^17 time-stamp ticks; 1000 pauses of ~140 cycles; milliseconds.
  e.set = {{"OPENBLAS_THREAD_TIMEOUT", "17"},
           {"GOMP_SPINCOUNT", "1000"},
           {"KMP_BLOCKTIME", "0"},
           {kMarker, "1"}};
  // BLIS takes generic kernels on CPUs newer than itself (15 % of peak); 0 is its SkylakeX set.
  if (cpu_has_avx512()) e.set.emplace("BLIS_ARCH_TYPE", "0");
  return e;
}

bool in_peer_environment() { return env(kMarker) != nullptr; }

std::vector<std::string> apply(const PeerEnvironment& change) {
  std::vector<std::string> lines;
  for (char** at = environ; *at; ++at) {
    const std::string_view line = *at;
    const std::string name{line.substr(0, line.find('='))};
    if (change.set.contains(name)) continue;
    if (std::find(change.unset.begin(), change.unset.end(), name) != change.unset.end()) continue;
    lines.emplace_back(line);
  }
  for (const auto& [name, value] : change.set) lines.push_back(fmt::format("{}={}", name, value));
  return lines;
}

Status enter_peer_environment() {
  if (in_peer_environment()) return {};
  // The marker would be set but not read, and the program would start itself for ever.
  if (env_is_foreign())
    return fail(ErrorCode::device,
                "this program has more rights than its user (setuid, setgid or capabilities): "
                "peers are raced without them only");
  auto arguments = own_arguments();
  if (!arguments) return tl::unexpected(arguments.error());
  auto lines = apply(peer_environment());
  std::vector<char*> argv, envp;
  for (auto& text : *arguments) argv.push_back(text.data());
  for (auto& text : lines) envp.push_back(text.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  execve("/proc/self/exe", argv.data(), envp.data());
  return fail(ErrorCode::device,
              fmt::format("cannot start this program again: execve: {}", std::strerror(errno)));
}

}  // namespace kiln
