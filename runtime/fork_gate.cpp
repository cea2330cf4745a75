#include "runtime/fork_gate.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>

namespace kiln {
namespace {

constexpr std::size_t kMostHooks = 8;

struct ForkState {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;   // threads
  int forking = 0;  // threads: others do not enter meanwhile
  std::array<ForkGate::Hooks, kMostHooks> hooks{};
  std::size_t count = 0;  // of hooks; the first ones of `any` locks, then those of leaves
  std::size_t any = 0;
  std::array<ForkGate::Hooks, kMostHooks> running{};  // those of the fork that is going on
  std::size_t running_count = 0;
};

void before_fork();
void in_parent();
void in_child();

/// Never destroyed: exit() may come before or after any static object's end.
ForkState& gate() {
  static ForkState& made = []() -> ForkState& {
    pthread_atfork(before_fork, in_parent, in_child);
    return *new ForkState;
  }();
  return made;
}

thread_local int depth = 0;     // of this thread's gates
thread_local int own_fork = 0;  // of its OwnForks

/// A thread that forks from inside (from a callback of the program's) does not wait for itself.
int own() { return depth > 0 ? 1 : 0; }

void before_fork() {
  if (own_fork > 0) return;
  ForkState& g = gate();
  {
    std::unique_lock lock(g.mutex);
    // One fork at a time: hooks hold locks.
    g.changed.wait(lock, [&] { return g.forking == 0; });
    g.forking = 1;
    g.changed.wait(lock, [&] { return g.inside == own(); });
    g.running = g.hooks;
    g.running_count = g.count;
  }
  for (std::size_t i = 0; i < g.running_count; ++i)
    if (g.running[i].before != nullptr) g.running[i].before();
  g.mutex.lock();  // in the child it is this thread's
}

void in_parent() {
  if (own_fork > 0) return;
  ForkState& g = gate();
  for (std::size_t i = g.running_count; i-- > 0;)
    if (g.running[i].parent != nullptr) g.running[i].parent();
  g.forking = 0;
  g.mutex.unlock();
  g.changed.notify_all();
}

void in_child() {
  if (own_fork > 0) return;
  ForkState& g = gate();
  for (std::size_t i = g.running_count; i-- > 0;)
    if (g.running[i].child != nullptr) g.running[i].child();
  g.forking = 0;
  g.inside = own();
  new (&g.changed) std::condition_variable;  // threads that waited are not here
  g.mutex.unlock();
}

}  // namespace

ForkGate::ForkGate() {
  if (depth++ > 0) return;
  ForkState& g = gate();
  std::unique_lock lock(g.mutex);
  g.changed.wait(lock, [&] { return g.forking == 0; });
  ++g.inside;
}

ForkGate::~ForkGate() {
  if (--depth > 0) return;
  ForkState& g = gate();
  {
    const std::lock_guard lock(g.mutex);
    --g.inside;
  }
  g.changed.notify_all();
}

void ForkGate::at_fork(const Hooks& hooks, Locks locks) {
  ForkState& g = gate();
  const std::lock_guard lock(g.mutex);
  if (g.count == kMostHooks) std::abort();  // one more for each part of kiln that has some
  const std::size_t place = locks == Locks::any ? g.any++ : g.count;
  std::copy_backward(g.hooks.begin() + place, g.hooks.begin() + g.count,
                     g.hooks.begin() + g.count + 1);
  g.hooks[place] = hooks;
  ++g.count;
}

OwnFork::OwnFork() { ++own_fork; }
OwnFork::~OwnFork() { --own_fork; }

}  // namespace kiln
