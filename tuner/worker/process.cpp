#include "tuner/worker/process.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cpu/affinity.h"
#include "runtime/env.h"
#include "runtime/log.h"
#include "runtime/own_folder.h"
#include "runtime/timer.h"
#include "runtime/work_counts.h"
#include "tuner/worker/limits.h"
#include "tuner/worker/starvation.h"

extern char** environ;

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExecutable = "kiln-worker";
// From the closing of its socket to the end of a process: milliseconds, unless it frees a lot.
constexpr double kDyingSeconds = 2.0;
constexpr double kLongestLimit = 86400.0 * 365;

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

tl::unexpected<Error> system_failure(const char* call, int error) {
  return fail(ErrorCode::device, fmt::format("{}: {}", call, strerror(error)));
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

const char* signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? name : "?";
}

/// "openat (257)": calls that a candidate has no business with, by name.
std::string system_call(int number) {
  constexpr std::pair<int, const char*> kNames[] = {{SYS_openat, "openat"},
                                                    {SYS_socket, "socket"},
                                                    {SYS_connect, "connect"},
                                                    {SYS_clone, "clone"},
                                                    {SYS_execve, "execve"},
                                                    {SYS_execveat, "execveat"},
                                                    {SYS_kill, "kill"},
                                                    {SYS_ptrace, "ptrace"},
                                                    {SYS_process_vm_readv, "process_vm_readv"},
                                                    {SYS_process_vm_writev, "process_vm_writev"},
#ifdef SYS_fork
                                                    {SYS_open, "open"},
                                                    {SYS_fork, "fork"},
                                                    {SYS_vfork, "vfork"}
#endif
  };
  for (const auto& [known, name] : kNames)
    if (known == number) return fmt::format("{} ({})", name, number);
  return fmt::format("number {}", number);
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
    const fs::path path = folder / kExecutable;
    if (access(path.c_str(), X_OK) == 0) return path;
    tried.push_back(path.string());
  }
  return fail(ErrorCode::device,
              fmt::format("no worker process: {} is not at {} (set KILN_WORKER to name it)",
                          kExecutable, fmt::join(tried, ", ")));
}

WorkerProcess::Page::~Page() {
  if (page) munmap(page, sizeof(WorkerStatus));
}

Result<WorkerProcess> WorkerProcess::start(const fs::path& executable) {
  WorkerProcess worker;
  const Fd page_file(memfd_create("kiln-worker-status", MFD_CLOEXEC));
  if (page_file.get() < 0 || ftruncate(page_file.get(), sizeof(WorkerStatus)) != 0)
    return system_failure("memfd_create", errno);
  void* page =
      mmap(nullptr, sizeof(WorkerStatus), PROT_READ | PROT_WRITE, MAP_SHARED, page_file.get(), 0);
  if (page == MAP_FAILED) return system_failure("mmap of the worker's status", errno);
  worker.status_.page = static_cast<WorkerStatus*>(page);

  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return system_failure("socketpair", errno);
  worker.socket_ = Fd(pair[0]);
  const Fd theirs(pair[1]);

  // Duplicated first to numbers above those that the worker knows: dup2 must not run over its
  // source.
  const Fd socket_copy(fcntl(theirs.get(), F_DUPFD_CLOEXEC, 16));
  const Fd page_copy(fcntl(page_file.get(), F_DUPFD_CLOEXEC, 16));
  SpawnPlan plan;
  posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&plan.actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&plan.actions, socket_copy.get(), kWorkerSocketFd);
  posix_spawn_file_actions_adddup2(&plan.actions, page_copy.get(), kWorkerStatusFd);
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, kWorkerStatusFd + 1);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&plan.attributes, &all);
  posix_spawnattr_setsigmask(&plan.attributes, &none);
  // In a process group of its own (0 = its pid): a terminal's Ctrl-C is for the parent, and must
  // not be recorded as a crash of the candidate.
  posix_spawnattr_setpgroup(&plan.attributes, 0);
  posix_spawnattr_setflags(&plan.attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);

  std::string path = executable.string();
  std::string parent = std::to_string(getpid());
  char* arguments[] = {path.data(), parent.data(), nullptr};
  std::vector<char*> environment = passed_on();
  pid_t pid = 0;
  const WholeMask mask;  // a caller that is pinned must not confine what is measured
  const int error = posix_spawn(&pid, path.c_str(), &plan.actions, &plan.attributes, arguments,
                                environment.data());
  if (error != 0) return system_failure(fmt::format("start of {}", path).c_str(), error);
  worker.pid_.value = pid;
  count_work(Work::workers);
  return worker;
}

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  if (alive()) bury();
  socket_ = std::move(other.socket_);
  std::swap(pid_.value, other.pid_.value);
  std::swap(status_.page, other.status_.page);
  std::swap(asked_, other.asked_);
  return *this;
}

WorkerProcess::~WorkerProcess() {
  if (alive()) bury();
}

std::optional<int> WorkerProcess::reap(double seconds) {
  const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  do {
    int status = 0;
    const pid_t ended = waitpid(pid_.value, &status, WNOHANG);
    // A host that ignores SIGCHLD, or waits for every child itself, leaves nothing to collect; the
    // number may by now be another process's.
    if (ended == pid_.value || (ended < 0 && errno == ECHILD)) {
      pid_.value = 0;
      return ended < 0 ? 0 : status;
    }
    usleep(1000);
  } while (now_ns() < deadline);
  return std::nullopt;
}

// Also an ordinary end is a kill: the worker owns nothing that outlives it.
int WorkerProcess::bury() {
  kill(pid_.value, SIGKILL);
  if (const auto status = reap(kDyingSeconds)) return *status;
  // Stuck in a driver: waiting longer would hang the caller too.
  log::warn("worker process {} could not be killed and is abandoned", pid_.value);
  pid_.value = 0;
  return SIGKILL;
}

Failure WorkerProcess::obituary(int wait_status) const {
  const auto phase =
      name(static_cast<WorkerStatus::Phase>(status_.page->phase.load(std::memory_order_acquire)));
  const int signal = status_.page->signal.load(std::memory_order_acquire);
  if (signal == SIGSYS)
    return {Failure::Kind::crashed, fmt::format("made a system call that its cage refuses, {} {}",
                                                system_call(status_.page->code.load()), phase)};
  if (WIFEXITED(wait_status) && signal == 0)
    return {Failure::Kind::crashed,
            fmt::format("exited with code {} {}", WEXITSTATUS(wait_status), phase)};
  const int killer = WTERMSIG(wait_status);
  if (killer == SIGXCPU || killer == SIGKILL)
    return {killer == SIGXCPU ? Failure::Kind::timed_out : Failure::Kind::resources,
            fmt::format("SIG{} {} ({})", signal_name(killer), phase,
                        killer == SIGXCPU ? "its share of CPU time was spent"
                                          : "killed from outside, perhaps for want of memory")};
  if (signal == 0)
    return {Failure::Kind::crashed, fmt::format("SIG{} {}", signal_name(killer), phase)};
  const auto address = status_.page->address.load();
  const int code = status_.page->code.load();
  // Our guard pages are mapped without access; a stray pointer mostly has no mapping at all.
  if (signal == SIGSEGV && code == SEGV_ACCERR)
    return {Failure::Kind::out_of_bounds,
            fmt::format("SIGSEGV at {:#x} (a guard page or other protected memory) {}", address,
                        phase)};
  return {Failure::Kind::crashed, fmt::format("SIG{} at {:#x}{} {}", signal_name(signal), address,
                                              signal == SIGSEGV ? " (not mapped)" : "", phase)};
}

tl::expected<Message, Failure> WorkerProcess::ask(const nlohmann::json& request,
                                                  std::span<const int> files, double seconds) {
  status_.page->signal = 0;
  status_.page->candidate = 0;
  nlohmann::json numbered = request;
  numbered["id"] = ++asked_;
  if (const Status sent = send_message(socket_.get(), numbered, files); !sent)
    return tl::unexpected(obituary(bury()));
  const Starvation starved(pid_.value);
  const std::int64_t begin = now_ns();
  for (;;) {
    if (!readable_within(begin, seconds * patience(), starved)) {
      const auto phase = static_cast<WorkerStatus::Phase>(status_.page->phase.load());
      bury();
      return tl::unexpected(
          Failure{Failure::Kind::timed_out,
                  fmt::format("timed out after {:.1f} s {}", seconds * patience(), name(phase))});
    }
    auto message = receive_message(socket_.get());
    if (message) {
      if (message->body.value("id", nlohmann::json()) == asked_) return std::move(*message);
      continue;
    }
    // The end of the file mostly means a death; a worker that babbles is stopped for good.
    if (const auto status = reap(kDyingSeconds)) return tl::unexpected(obituary(*status));
    bury();
    return tl::unexpected(Failure{Failure::Kind::crashed, message.error().message});
  }
}

bool WorkerProcess::readable_within(std::int64_t begin, double seconds,
                                    const Starvation& starved) const {
  const double limit_ns = std::min(seconds, kLongestLimit) * 1e9;
  std::int64_t deadline = begin + static_cast<std::int64_t>(limit_ns);
  for (;;) {
    std::int64_t left = deadline - now_ns();
    if (left <= 0) {
      deadline = begin + static_cast<std::int64_t>(limit_ns) + starved.ns();
      left = deadline - now_ns();
      if (left <= 0) return false;
    }
    pollfd waiting{socket_.get(), POLLIN, 0};
    constexpr std::int64_t kLongestWait = 1'000'000;  // ms: poll takes an int
    if (poll(&waiting, 1, static_cast<int>(std::min(left / 1'000'000 + 1, kLongestWait))) > 0)
      return true;
  }
}

}  // namespace kiln
