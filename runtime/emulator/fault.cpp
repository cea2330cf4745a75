#include "runtime/emulator/fault.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <mutex>
#include <new>

#include "runtime/emulator/machine.h"

namespace kiln::emu {
namespace {

constexpr std::size_t kHandlerStack = 64 << 10;
constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
std::array<struct sigaction, kSignals.size()> previous_actions;

struct Fault {
  Trap trap;
  const void* address;
};
thread_local Fault last_fault;

/// Where the interrupted code goes on, the handler being over.
[[noreturn]] void go_on() { Machine::current()->faulted(last_fault.trap, last_fault.address); }

/// Sends the interrupted thread to go_on(), with its stack as a call would leave it. A lane never
/// returns to what it did, so it starts at the top of its own: there may be nothing left below.
void divert(ucontext_t& interrupted) {
  auto* top = Machine::current()->lane_stack_top();
#if defined(__x86_64__)
  auto& registers = interrupted.uc_mcontext.gregs;
  const auto stack =
      top != nullptr ? reinterpret_cast<greg_t>(top) : registers[REG_RSP] - 256;  // a red zone
  registers[REG_RSP] = (stack & ~15LL) - 8;
  registers[REG_RIP] = reinterpret_cast<greg_t>(&go_on);
#elif defined(__aarch64__)
  auto& registers = interrupted.uc_mcontext;
  if (top != nullptr) registers.sp = reinterpret_cast<unsigned long long>(top);
  registers.sp &= ~15ULL;
  registers.pc = reinterpret_cast<unsigned long long>(&go_on);
#endif
}

void pass_on(int signal, siginfo_t* info, void* context) {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] != signal) continue;
    const struct sigaction& before = previous_actions[i];
    // What the system would have done on the way to a handler that is for one signal only.
    if ((before.sa_flags & SA_RESETHAND) != 0) ::signal(signal, SIG_DFL);
    if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
      return before.sa_handler(signal);
    // The instruction is tried again, and now nobody catches it.
    ::sigaction(signal, &before, nullptr);
  }
}

void handle(int signal, siginfo_t* info, void* context) {
  if (Machine::current() == nullptr) return pass_on(signal, info, context);
  last_fault = signal == SIGSEGV || signal == SIGBUS ? Fault{Trap::access, info->si_addr}
               : signal == SIGFPE                    ? Fault{Trap::division, nullptr}
                                                     : Fault{Trap::index, nullptr};
  divert(*static_cast<ucontext_t*>(context));
}

}  // namespace

FaultWatch::FaultWatch() : stack_(nullptr), previous_(new stack_t{}) {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &action, &previous_actions[i]);
  });
  stack_ =
      ::mmap(nullptr, kHandlerStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack_ == MAP_FAILED) throw std::bad_alloc();
  stack_t own{};
  own.ss_sp = stack_;
  own.ss_size = kHandlerStack;
  ::sigaltstack(&own, static_cast<stack_t*>(previous_));
}

FaultWatch::~FaultWatch() {
  auto* previous = static_cast<stack_t*>(previous_);
  ::sigaltstack(previous, nullptr);
  delete previous;
  ::munmap(stack_, kHandlerStack);
}

}  // namespace kiln::emu
