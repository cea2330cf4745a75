#include "runtime/worker_program.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "runtime/cpu/affinity.h"
#include "runtime/env.h"
#include "runtime/memory_file.h"
#include "runtime/own_folder.h"

extern char** environ;

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWorkerName = "kiln-worker";
constexpr int kFirstDescriptor = 3;

/// What a worker may know of its parent's environment, and why. Names that end in '_' stand for all
/// that begin so.
constexpr std::string_view kPassedOn[] = {
    "KILN_",  // kiln's own
    "LD_LIBRARY_PATH",
    // Which kernels a BLAS library chooses: the one that is raced is to be the program's.
    "OPENBLAS_CORETYPE", "BLIS_ARCH_TYPE", "MKL_ENABLE_INSTRUCTIONS",
    // GPU drivers and their compilers: where they lie, which devices they show, where they cache.
    "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "ROCM_", "HSA_", "AMD_", "GPU_", "HOME", "XDG_CACHE_HOME",
    // Sanitized builds.
    "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};

bool is_passed_on(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  return std::any_of(std::begin(kPassedOn), std::end(kPassedOn), [&](std::string_view allowed) {
    return allowed.ends_with('_') ? name.starts_with(allowed) : name == allowed;
  });
}

/// Nothing where this program has more rights than its user: what the worker compiles runs here.
std::vector<char*> passed_on() {
  std::vector<char*> variables;
  char** const all = env_is_foreign() ? nullptr : environ;
  for (char** variable = all; variable != nullptr && *variable != nullptr; ++variable)
    if (is_passed_on(*variable)) variables.push_back(*variable);
  variables.push_back(nullptr);
  return variables;
}

std::vector<fs::path> search_folders() {
  std::vector<fs::path> folders;
  std::error_code ignored;
  const auto around = [&](const fs::path& here) {
    for (const char* step : {".", "../bin", "../libexec/kiln", "../../libexec/kiln"})
      folders.push_back((here / step).lexically_normal());
  };
  if (const fs::path own = own_folder(); !own.empty()) around(own);
  if (const fs::path self = fs::read_symlink("/proc/self/exe", ignored); !self.empty())
    around(self.parent_path());
  return folders;
}

/// The flags and descriptors of a spawn, released at the end of the scope.
struct SpawnPlan {
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

Result<fs::path> find_worker() {
  std::error_code ignored;
  if (const char* named = env("KILN_WORKER"); named && *named) {
    if (access(named, X_OK) == 0) return fs::path(named);
    return fail(ErrorCode::device, fmt::format("KILN_WORKER = {}: {}", named, strerror(errno)));
  }
  std::vector<std::string> tried;
  for (const fs::path& folder : search_folders()) {
    const fs::path path = folder / kWorkerName;
    if (access(path.c_str(), X_OK) == 0) return path;
    tried.push_back(path.string());
  }
  return fail(ErrorCode::device,
              fmt::format("no worker process: {} is not at {} (set KILN_WORKER to name it)",
                          kWorkerName, fmt::join(tried, ", ")));
}

Result<pid_t> start_worker(const fs::path& executable, std::string argument,
                           std::span<const int> descriptors) {
  SpawnPlan plan;
  posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&plan.actions, 1, "/dev/null", O_WRONLY, 0);
  // Duplicated first to numbers above those that the worker knows: dup2 must not run over its
  // source.
  std::vector<Fd> copies;
  int next = kFirstDescriptor;
  for (const int descriptor : descriptors) {
    copies.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, 16));
    posix_spawn_file_actions_adddup2(&plan.actions, copies.back().get(), next++);
  }
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, next);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&plan.attributes, &all);
  posix_spawnattr_setsigmask(&plan.attributes, &none);
  posix_spawnattr_setpgroup(&plan.attributes, 0);  // 0: its pid
  posix_spawnattr_setflags(&plan.attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);

  std::string path = executable.string();
  char* arguments[] = {path.data(), argument.data(), nullptr};
  std::vector<char*> environment = passed_on();
  pid_t pid = 0;
  const WholeMask mask;  // a caller that is pinned must not confine what is measured
  const int error = posix_spawn(&pid, path.c_str(), &plan.actions, &plan.attributes, arguments,
                                environment.data());
  if (error != 0)
    return fail(ErrorCode::device, fmt::format("start of {}: {}", path, strerror(error)));
  return pid;
}

}  // namespace kiln
