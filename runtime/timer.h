// The monotonic clock.
#pragma once

#include <time.h>

#include <cstdint>

namespace kiln {

/// Monotonic nanoseconds; a reading costs ~25 ns, so batches should last 20 µs or more.
inline std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace kiln
