#include "tuner/worker/process.h"

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "runtime/log.h"
#include "runtime/timer.h"
#include "runtime/work_counts.h"
#include "tuner/worker/limits.h"
#include "tuner/worker/starvation.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// From the closing of its socket to the end of a process: milliseconds, unless it frees a lot.
constexpr double kDyingSeconds = 2.0;
constexpr double kLongestLimit = 86400.0 * 365;

tl::unexpected<Error> system_failure(const char* call, int error) {
  return fail(ErrorCode::device, fmt::format("{}: {}", call, strerror(error)));
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

/// How often a CutOff is asked.
constexpr int kAskedMs = 20;
thread_local std::function<bool()> cut_off;  // of the innermost CutOff

}  // namespace

CutOff::CutOff(std::function<bool()> over)
    : over_(std::move(over)), outer_(std::exchange(cut_off, over_)) {}

CutOff::~CutOff() { cut_off = std::move(outer_); }

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

  // In a process group of its own: a Ctrl-C must not be recorded as a crash of the candidate.
  const auto pid =
      start_worker(executable, std::to_string(getpid()), std::array{theirs.get(), page_file.get()});
  if (!pid) return tl::unexpected(pid.error());
  worker.pid_.value = *pid;
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
  status_.page->admitted = 0;
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
      if (cut_off && cut_off())
        return tl::unexpected(Failure{Failure::Kind::timed_out,
                                      fmt::format("cut off {}: the time was over", name(phase))});
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
    const std::int64_t most = cut_off ? kAskedMs : kLongestWait;
    if (poll(&waiting, 1, static_cast<int>(std::min(left / 1'000'000 + 1, most))) > 0) return true;
    if (cut_off && cut_off()) return false;
  }
}

}  // namespace kiln
