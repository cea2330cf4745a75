// Waiting in tests: for as long as it takes, on any machine. ctest ends what waits for ever.
#pragma once

#include <unistd.h>

#include <chrono>
#include <thread>

namespace kiln::test {

/// Returns once `condition()` holds.
template <typename F>
void eventually(F&& condition) {
  // clock: only how often it asks
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Ends a child that hangs, long after any machine would have been done.
inline void end_when_hung() {
  ::alarm(1800);  // clock: far beyond what any machine needs
}

}  // namespace kiln::test
