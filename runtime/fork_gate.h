// What of kiln is at rest while a process forks. A forked child has the memory of its parent and
// one of its threads: a lock that another thread held stays locked there for ever, and what it
// guards stays half changed. Knows none of the locks.
#pragma once

namespace kiln {

/// While one lives on a thread, fork() on any other thread waits. It is for work that holds locks
/// and ends by itself: look-ups, compiles, the database; never for a whole search. They nest. A
/// thread that waits for others must not need them to enter: they would wait for the fork.
class ForkGate {
 public:
  ForkGate();
  ~ForkGate();
  ForkGate(const ForkGate&) = delete;
  ForkGate& operator=(const ForkGate&) = delete;

  /// What runs around a fork(), on the thread that forks: `before` once nobody is inside the gate,
  /// then `parent` or `child`. Each may be null.
  struct Hooks {
    void (*before)();
    void (*parent)();
    void (*child)();
  };
  /// Of the locks that `before` takes: others may be held while one of them is waited for, or no
  /// lock is waited for by who holds them. Those are taken last.
  enum class Locks { any, leaves };
  static void at_fork(const Hooks& hooks, Locks locks = Locks::any);
};

/// While one lives, this thread's fork() is kiln's own, whose child uses nothing of the gate: no
/// hook runs, and nobody is waited for (they may wait for what this thread holds).
class OwnFork {
 public:
  OwnFork();
  ~OwnFork();
  OwnFork(const OwnFork&) = delete;
  OwnFork& operator=(const OwnFork&) = delete;
};

}  // namespace kiln
