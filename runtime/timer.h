// Wall clock around batches of calls that are long enough for it. Knows no statistics.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace kiln {

/// Monotonic nanoseconds; a reading costs ~25 ns, so batches should last 20 µs or more.
inline std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

/// Nanoseconds of one of `calls` calls of `body()` in a row, at least one.
template <typename Body>
double time_calls(Body&& body, std::int64_t calls) {
  calls = std::max<std::int64_t>(1, calls);
  const std::int64_t begin = now_ns();
  for (std::int64_t i = 0; i < calls; ++i) body();
  return static_cast<double>(now_ns() - begin) / static_cast<double>(calls);
}

/// How many calls of `ns_per_call` make a batch of `target_ns`, from 1 to `most`.
inline std::int64_t calls_for(double ns_per_call, double target_ns, std::int64_t most) {
  if (!(ns_per_call > 0)) return most;
  const double calls = target_ns / ns_per_call;
  if (calls >= static_cast<double>(most)) return most;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(calls + 0.5));
}

/// Calls of `body()` that fill a batch of `target_ns`, found by running ever longer batches; the
/// fastest seen counts, since a stolen time slice only ever adds.
template <typename Body>
std::int64_t calibrate_calls(Body&& body, double target_ns, std::int64_t most = 1 << 20) {
  std::int64_t calls = 1;
  double fastest = time_calls(body, 1);
  // Half the target is long enough to trust; each round at most quadruples, so an early
  // overestimate of the speed cannot run away.
  while (calls < most && fastest * static_cast<double>(calls) < target_ns / 2) {
    calls = std::min({most, calls * 4, std::max(calls + 1, calls_for(fastest, target_ns, most))});
    fastest = std::min(fastest, time_calls(body, calls));
  }
  return calls_for(fastest, target_ns, most);
}

}  // namespace kiln
