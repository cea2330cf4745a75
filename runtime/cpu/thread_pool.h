// Persistent pinned threads for one call at a time each: a caller leases a team, runs on it, and
// gives it back. Knows nothing of kernels. Spawning per call would lose a third of the speed: a new
// thread can share its creator's core for milliseconds.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/host.h"

namespace kiln {

/// What every thread of a call runs; `thread` is 0..threads-1 and 0 is the caller itself.
using Task = void (*)(void* context, int thread, int threads);

struct Team;

/// From now on no file is read for where threads should be: this process may open none (a worker's
/// cage).
void fix_threads();

/// A team of threads, this caller's alone until the lease ends, or the pool that the program lends.
/// When warm, taking it, running on it
/// and giving it back allocate nothing, take no lock and, while its threads still spin, make no
/// system call. Threads spin ~0.1 ms for the next call, then sleep. After fork() the child starts
/// with an empty pool of its own.
class TeamLease {
 public:
  explicit TeamLease(int threads);
  ~TeamLease();
  TeamLease(const TeamLease&) = delete;
  TeamLease& operator=(const TeamLease&) = delete;

  /// As asked for, or fewer when the system refused to make a thread.
  int threads() const { return threads_; }
  /// Returns when every thread has returned from `task`, which all run in the caller's
  /// floating-point mode (float_mode.h). False, and nothing ran: the program's own pool cannot run
  /// so many at once.
  [[nodiscard]] bool run(Task task, void* context);

 private:
  const HostThreads* lent_ = nullptr;
  Team* team_ = nullptr;
  int threads_ = 1;
};

/// `body(thread, threads)` on a team of its own; returns the number of threads it ran on.
template <typename Body>
int parallel(int threads, Body&& body) {
  TeamLease lease(threads);
  const bool ran = lease.run(
      [](void* context, int thread, int count) {
        (*static_cast<std::remove_reference_t<Body>*>(context))(thread, count);
      },
      &body);
  if (ran) return lease.threads();
  body(0, 1);
  return 1;
}

}  // namespace kiln
