#include "tuner/worker/program/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tuner/measure/measure.h"
#include "tuner/worker/program/cage_filter.h"

namespace kiln {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // shadow memory takes terabytes of address space
#else
constexpr bool kSanitized = false;
#endif

WorkerStatus* g_refusals = nullptr;

/// The registers of a trapped call.
struct Call {
  explicit Call(void* context) : machine(static_cast<ucontext_t*>(context)->uc_mcontext) {}
#if defined(__x86_64__)
  long argument(int i) const {
    constexpr int kRegisters[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10};
    return machine.gregs[kRegisters[i]];
  }
  void answer(long result) { machine.gregs[REG_RAX] = result; }
#elif defined(__aarch64__)
  long argument(int i) const { return static_cast<long>(machine.regs[i]); }
  void answer(long result) { machine.regs[0] = static_cast<unsigned long long>(result); }
#endif
  const char* text(int i) const { return reinterpret_cast<const char*>(argument(i)); }

  mcontext_t& machine;
};

/// The N of "/proc/self/fd/N", where runs of '/' and of "/." may stand before it
/// (runtime/cpu/image.cpp spells every load differently); -1 for any other path.
int descriptor_named(const char* path) {
  constexpr char kFolder[] = "/proc/self/fd/";
  constexpr std::size_t kLength = sizeof(kFolder) - 1;
  if (strncmp(path, kFolder, kLength) != 0) return -1;
  path += kLength;
  while (*path == '/' || (*path == '.' && path[1] == '/')) ++path;
  int fd = *path == '\0' ? -1 : 0;
  for (; *path != '\0'; ++path) {
    if (*path < '0' || *path > '9' || fd > 1'000'000) return -1;
    fd = 10 * fd + (*path - '0');
  }
  return fd;
}

/// In place of an open of a memory file by its path: a copy of its descriptor, at its beginning.
long copy_of(int fd) {
  if (syscall(SYS_lseek, fd, 0L, SEEK_SET) != 0) return -errno;
  const long copy = syscall(SYS_dup, fd);
  return copy < 0 ? -errno : copy;
}

/// Files by which the C library counts processors, also when it makes an arena for a thread's
/// allocations. It does without them.
bool is_counted_by_libc(const char* path) {
  constexpr const char* kFiles[] = {"/sys/devices/system/cpu/online", "/sys/devices/system/cpu",
                                    "/proc/stat", "/proc/sys/vm/overcommit_memory"};
  return std::any_of(std::begin(kFiles), std::end(kFiles),
                     [path](const char* file) { return strcmp(file, path) == 0; });
}

/// Runs in the thread that made a call which the filter does not allow. Answers the two that the
/// dynamic linker makes to load a memory file, and the C library's habits; any other is noted, and
/// the process ends.
void on_trapped_call(int, siginfo_t* info, void* context) {
  const int before = errno;
  Call call(context);
  if (info->si_syscall == SYS_openat) {
    const int fd = descriptor_named(call.text(1));
    if (fd >= 0 || is_counted_by_libc(call.text(1))) {
      call.answer(fd >= 0 ? copy_of(fd) : -ENOENT);
      errno = before;
      return;
    }
  } else if (info->si_syscall == SYS_newfstatat && *call.text(1) == '\0') {
    const long done = syscall(SYS_fstat, call.argument(0), call.argument(2));
    call.answer(done < 0 ? -errno : done);
    errno = before;
    return;
  }
  int expected = 0;
  if (g_refusals->signal.compare_exchange_strong(expected, -1)) {
    g_refusals->code = info->si_syscall;
    g_refusals->address = reinterpret_cast<std::uintptr_t>(info->si_call_addr);
    g_refusals->signal = SIGSYS;
  }
  _exit(128 + SIGSYS);
}

std::string not_caged(const char* call) {
  return std::string("none: ") + call + ": " + strerror(errno);
}

std::vector<pid_t> threads_of_this_process() {
  std::vector<pid_t> threads;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored))
    threads.push_back(std::atoi(entry.path().filename().c_str()));
  return threads;
}

void answer_trapped_calls() {
  struct sigaction action {};
  action.sa_sigaction = on_trapped_call;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSYS, &action, nullptr);
}

}  // namespace

void limit_address_space(std::int64_t set_bytes) {
  if (kSanitized) return;
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto mapped = static_cast<std::int64_t>(pages) * sysconf(_SC_PAGESIZE);
  const auto limit = static_cast<rlim_t>(mapped + 2 * kRotationLimitBytes + 24 * set_bytes +
                                         (std::int64_t{4} << 30));
  rlimit current{};
  getrlimit(RLIMIT_AS, &current);
  const rlim_t least = std::min(limit, current.rlim_max);
  const rlimit wanted{least, least};
  setrlimit(RLIMIT_AS, &wanted);
}

std::string enter_cage(CageKind kind, WorkerStatus* status) {
  if (kSanitized) return "none: a sanitized build";
  g_refusals = status;
  std::vector<sock_filter> code = kind == CageKind::host
                                      ? host_filter(getpid(), threads_of_this_process())
                                      : gpu_filter(getpid());
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return not_caged("PR_SET_NO_NEW_PRIVS");
  if (kind == CageKind::host) {
    answer_trapped_calls();
    // RLIMIT_CORE does not keep a dump from a core_pattern that is a pipe; this does. It also hides
    // /proc/self/fd, which is not opened any more.
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  }
  // All threads at once. Kernels before 5.16 would turn speculative stores off with the filter,
  // which slows code down as no caller's process would be: candidates are timed here.
  const long done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                            SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
  if (done == 0) return kind == CageKind::host ? "host" : "gpu";
  const std::string why = done < 0 ? not_caged("seccomp") : "none: seccomp: a thread has a filter";
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // without the cage memory files are opened by their paths
  return why;
}

}  // namespace kiln
