#include "tuner/worker/program/fault_report.h"

#include <signal.h>

#include <array>

namespace kiln {
namespace {

WorkerStatus* g_faults = nullptr;
// A kernel may have used up the ordinary stack. Fixed: SIGSTKSZ is not a constant in newer libcs.
alignas(16) std::array<char, 64 << 10> g_stack;

// The first fault is the cause; others of dying threads are not. After the return the raised signal
// is delivered with its default action, which ends the process.
void note_fault(int signal, siginfo_t* info, void*) {
  int expected = 0;
  if (g_faults->signal.compare_exchange_strong(expected, -1)) {
    g_faults->code = info->si_code;
    g_faults->address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    g_faults->signal = signal;
  }
  raise(signal);
}

}  // namespace

void report_faults_on(WorkerStatus* status) {
  g_faults = status;
  stack_t stack{};
  stack.ss_sp = g_stack.data();
  stack.ss_size = g_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = note_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP})
    sigaction(signal, &action, nullptr);
}

}  // namespace kiln
