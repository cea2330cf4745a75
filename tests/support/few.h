// Tuning in tests ends by count, so that it does the same work on any machine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "kiln/options.hpp"

namespace kiln::test {

/// A search of so many candidates, however long they take.
inline TuneOptions few(int candidates, int threads = 0) {
  TuneOptions options;
  options.budget = std::chrono::hours(24);  // clock: no machine meets it
  options.candidates = candidates;
  options.threads = threads;
  return options;
}

/// The same where a sample takes an emulator seconds: a race ends with its fewest samples. One
/// candidate at least is timed, so that there is a winner.
inline TuneOptions few_emulated(int candidates) {
  TuneOptions options = few(candidates);
  options.budget = std::chrono::seconds(1);  // clock: spent or not, there is a winner
  return options;
}

/// The budget of few_emulated() is spent when the engine's next search begins, and goes no further:
/// its first candidate is timed, and its proof is not cut off.
template <typename Engine>
void spend_budget(Engine& engine) {
  engine.impl().tuning.clock = [begun = std::make_shared<std::atomic<bool>>(false)] {
    return begun->exchange(true) ? std::int64_t{1'200'000'000} : std::int64_t{0};
  };
}

}  // namespace kiln::test
