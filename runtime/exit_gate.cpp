#include "runtime/exit_gate.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>

#include "runtime/fork_gate.h"

namespace kiln {
namespace {

thread_local int entered = 0;  // of this thread's gates: exit() may be called inside of one

struct ExitState {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;  // threads
  bool ending = false;
};

ExitState& state() {
  static ExitState& made = []() -> ExitState& {
    // A forked child has the thread that forked and no other.
    ForkGate::at_fork({[] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                       [] {
                         state().inside = entered > 0 ? 1 : 0;
                         new (&state().changed) std::condition_variable;
                         state().mutex.unlock();
                       }},
                      ForkGate::Locks::leaves);
    return *new ExitState;
  }();
  return made;
}

void wait_for_others() {
  ExitState& s = state();
  std::unique_lock lock(s.mutex);
  s.ending = true;
  s.changed.wait(lock, [&] { return s.inside == (entered > 0 ? 1 : 0); });
}

}  // namespace

ExitGate::ExitGate() {
  ExitState& s = state();
  const std::lock_guard lock(s.mutex);
  open_ = entered > 0 || !s.ending;
  if (open_ && entered++ == 0) ++s.inside;
}

ExitGate::~ExitGate() {
  if (!open_ || --entered > 0) return;
  ExitState& s = state();
  {
    const std::lock_guard lock(s.mutex);
    --s.inside;
  }
  s.changed.notify_all();
}

void ExitGate::guard_opened_library() {
  state();
  std::atexit(wait_for_others);
}

void ExitGate::close() { wait_for_others(); }

bool ExitGate::ending() {
  ExitState& s = state();
  const std::lock_guard lock(s.mutex);
  return s.ending;
}

}  // namespace kiln
