// The lock of kiln's slow paths: what is logged under it is told afterwards, and no child is forked
// meanwhile. Knows nothing of what it guards.
#pragma once

#include <mutex>

#include "runtime/fork_gate.h"
#include "runtime/log.h"

namespace kiln {

/// What a QuietLock does, for work without a lock of its own that ends by itself.
class QuietScope {
 public:
  QuietScope() = default;
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;

 private:
  // In this order: the gate is left first, the messages are told last.
  log::Deferred messages_;
  ForkGate gate_;
};

/// A lock_guard. The program's log callback may call kiln, so it must not run while this thread
/// holds what that call would lock.
class QuietLock {
 public:
  explicit QuietLock(std::mutex& mutex) : lock_(mutex) {}
  QuietLock(const QuietLock&) = delete;
  QuietLock& operator=(const QuietLock&) = delete;

 private:
  QuietScope scope_;  // before the lock, which is released first
  std::lock_guard<std::mutex> lock_;
};

}  // namespace kiln
