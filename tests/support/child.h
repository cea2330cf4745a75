// A body run in a forked child, so that crashes, limits and loaded libraries stay there.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

namespace kiln::test {

/// Starts `body()` in a child; the child's exit status is 0 when it returned true. Returns its pid.
/// Call it from a process with one thread.
template <typename F>
pid_t start_child(F&& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  bool good = false;
  try {
    good = body();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "child: %s\n", e.what());
  }
  ::_exit(good ? 0 : 1);
}

/// Waits; true when the child returned true.
inline bool wait_for(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

template <typename F>
bool in_child(F&& body) {
  return wait_for(start_child(static_cast<F&&>(body)));
}

/// Whether a file whose path holds `part` is mapped into this process.
inline bool is_mapped(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(part) != line.npos) return true;
  return false;
}

}  // namespace kiln::test
