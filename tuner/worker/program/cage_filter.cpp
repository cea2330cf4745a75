#include "tuner/worker/program/cage_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "tuner/worker/protocol.h"

// Newer than some headers that kiln is built with; the numbers are the same on every architecture.
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

namespace kiln {
namespace {

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
constexpr unsigned kFirstX32 = 0x40000000;
#elif defined(__aarch64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#endif

/// A program under construction. Each rule stands alone: it loads what it looks at, and falls
/// through to the next with nothing kept.
class Program {
 public:
  Program() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    answer(SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
    load(offsetof(seccomp_data, nr));
    add(BPF_JMP | BPF_JGE | BPF_K, kFirstX32, 0, 1);
    answer(SECCOMP_RET_KILL_PROCESS);
#endif
  }

  void answer(unsigned action) { add(BPF_RET | BPF_K, action); }

  void on(long call, unsigned action) {
    load(offsetof(seccomp_data, nr));
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1);
    answer(action);
  }
  void on(std::initializer_list<long> calls, unsigned action) {
    for (const long call : calls) on(call, action);
  }
  /// Where the low half of an argument is `value`: kernel interfaces take these as 32-bit numbers.
  void on_argument(long call, int argument, unsigned value, unsigned action) {
    on_test(call, argument, BPF_JEQ, value, action, true);
  }
  void on_other_argument(long call, int argument, unsigned value, unsigned action) {
    on_test(call, argument, BPF_JEQ, value, action, false);
  }
  void on_flag(long call, int argument, unsigned flag, unsigned action) {
    on_test(call, argument, BPF_JSET, flag, action, true);
  }
  /// Where both halves of the argument are 0.
  void on_null(long call, int argument, unsigned action) {
    load(offsetof(seccomp_data, nr));
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 5);
    load(low(argument));
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    load(low(argument) + 4);
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    answer(action);
  }

  std::vector<sock_filter> take() { return std::move(code_); }

 private:
  // Both architectures are little-endian.
  static unsigned low(int argument) {
    return static_cast<unsigned>(offsetof(seccomp_data, args) + sizeof(__u64) * argument);
  }
  void add(unsigned code, unsigned k, unsigned yes = 0, unsigned no = 0) {
    code_.push_back({static_cast<__u16>(code), static_cast<__u8>(yes), static_cast<__u8>(no), k});
  }
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)); }
  void on_test(long call, int argument, unsigned test, unsigned value, unsigned action, bool when) {
    load(offsetof(seccomp_data, nr));
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 3);
    load(low(argument));
    add(BPF_JMP | test | BPF_K, value, when ? 0 : 1, when ? 1 : 0);
    answer(action);
  }

  std::vector<sock_filter> code_;
};

// The kernel takes 4096 instructions; a thread needs five. Threads beyond stay where they are.
constexpr std::size_t kMostMoved = 600;
constexpr unsigned kAllow = SECCOMP_RET_ALLOW;
constexpr unsigned refusal(int error) { return SECCOMP_RET_ERRNO | static_cast<unsigned>(error); }

}  // namespace

std::vector<sock_filter> host_filter(pid_t self, std::span<const pid_t> threads) {
  const auto own = static_cast<unsigned>(self);
  Program p;
  // Advice that takes pages from the whole machine, where the worker is root's.
  for (const unsigned advice : {MADV_HWPOISON, MADV_SOFT_OFFLINE})
    p.on_argument(SYS_madvise, 2, advice, SECCOMP_RET_TRAP);
  // Memory, and files by descriptor; what is open is the socket, the status page, memory files and
  // the standard streams.
  p.on({SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_memfd_create,
        SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_lseek, SYS_close, SYS_fstat, SYS_dup},
       kAllow);
  p.on_argument(SYS_sendmsg, 0, kWorkerSocketFd, kAllow);
  p.on_argument(SYS_recvmsg, 0, kWorkerSocketFd, kAllow);
  // Threads. clone3 hides its flags in memory: libc falls back to clone, whose flags are seen.
  p.on(
      {SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_sched_yield, SYS_sched_getaffinity, SYS_gettid,
       SYS_getpid, SYS_getcpu, SYS_membarrier, SYS_exit, SYS_exit_group, SYS_restart_syscall},
      kAllow);
  p.on_flag(SYS_clone, 0, CLONE_THREAD, kAllow);
  p.on(SYS_clone3, refusal(ENOSYS));
  for (const pid_t thread : threads.first(std::min(threads.size(), kMostMoved)))
    p.on_argument(SYS_sched_setaffinity, 0, static_cast<unsigned>(thread), kAllow);
  p.on(SYS_sched_setaffinity, refusal(EPERM));
  // Signals to itself.
  p.on({SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack}, kAllow);
  p.on_argument(SYS_kill, 0, own, kAllow);
  p.on_argument(SYS_tgkill, 0, own, kAllow);
  // Clocks and what the C library asks about the machine.
  p.on({SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday,
        SYS_sysinfo, SYS_uname, SYS_getrandom, SYS_getrusage},
       kAllow);
  p.on_null(SYS_prlimit64, 2, kAllow);
  // Asked for by the C library out of habit (is this a terminal, a name for a thread): it does
  // without.
  p.on(SYS_ioctl, refusal(ENOTTY));
  p.on(SYS_prctl, refusal(EPERM));
  // OpenBLAS asks for its buffers' pages on one node, and does without.
  p.on({SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy}, refusal(EPERM));
  p.answer(SECCOMP_RET_TRAP);
  return p.take();
}

std::vector<sock_filter> gpu_filter(pid_t self) {
  const auto own = static_cast<unsigned>(self);
  const unsigned refused = refusal(EPERM);
  Program p;
  p.on({SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_kcmp},
       refused);
  p.on({SYS_execve, SYS_execveat}, refused);
  p.on({SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid,
        SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capset},
       refused);
  p.on({SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns}, refused);
  p.on({SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_add_key, SYS_request_key, SYS_keyctl,
        SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot,
        SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register},
       refused);
  p.on_other_argument(SYS_kill, 0, own, refused);
  p.on_other_argument(SYS_tgkill, 0, own, refused);
  p.on({SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_send_signal}, refused);
  // Daemons of a driver are spoken to over local sockets.
  for (const unsigned family : {AF_INET, AF_INET6, AF_PACKET})
    p.on_argument(SYS_socket, 0, family, refused);
  p.answer(kAllow);
  return p.take();
}

}  // namespace kiln
