// How long a process waited for a core: what a busy machine or a CPU quota took from it, so that a
// time limit means a hang and not somebody else's load. Knows no worker.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

namespace kiln {

/// Counts from its construction.
class Starvation {
 public:
  explicit Starvation(pid_t process);
  /// Nanoseconds that the thread which waited longest was runnable without running. 0 where the
  /// kernel does not say (no /proc/PID/task/TID/schedstat) or the process is gone.
  std::int64_t ns() const;

 private:
  pid_t process_;
  std::map<pid_t, std::int64_t> before_;  // by thread
};

}  // namespace kiln
