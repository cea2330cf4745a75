// Races under load: what a program that multiplies for hours sees, where the power limit sets the
// clock and a kernel that needs less energy has a higher one. Knows no driver and no kernels: a
// contender is a function that runs calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kiln/error.hpp"
#include "kiln/options.hpp"
#include "tuner/measure/gpu_clocks.h"

namespace kiln {

// The measurement policy under load (Backend::sustained), part of every record's key. Operands are
// those of the cool policy (tuner/measure/gpu_timing.h); then
// - the device is loaded with the first contender's calls until three consecutive readings of the
//   SM clock, 0.1 s apart, agree within 1 %, or for 2 s; without a sensor for 1 s;
// - each contender in turn runs back to back for a block of 0.6 s, of which the first quarter is
//   not timed: the clock follows the power with a delay, and begins as the one before left it;
// - the order rotates by one each round; three rounds at least;
// - where the budget is shorter, so are all of these times, in proportion;
// - the figure is the median over blocks of the time of a call. Its energy is that of all blocks,
//   by the board's counter, over their calls.

/// Calls that ran back to back.
struct LoadBlock {
  double ns = 0;
  std::int64_t calls = 0;
};
/// Runs calls back to back for about so many nanoseconds of the device, and waits for them; while
/// they run, `meanwhile` is called once. Errors: device.
using RunBlock =
    std::function<Result<LoadBlock>(double ns, const std::function<void()>& meanwhile)>;

struct LoadRules {
  double block_ns = 600e6;  ///< of one contender; shorter where the budget is
  double budget_ns = 1e18;  ///< of the device, for loading and all blocks
  int rounds = 9;           ///< at most
  int min_rounds = 3;       ///< taken whatever they cost
  /// Sees the timings after each round from min_rounds on, and may end the race.
  std::function<bool(const std::vector<Timing>&)> stop = {};
  /// Told whose turn it is, before each; the first while the device is loaded.
  std::function<void(std::size_t)> on_turn = {};
};

struct LoadRace {
  std::vector<Timing> timings;  // of the contenders in their order; with joules where they are told
  GpuConditions conditions;
};

/// `sensors`: of the device; null: none. Errors: device.
Result<LoadRace> race_under_load(const std::vector<RunBlock>& contenders,
                                 const gpu::Telemetry* sensors, const LoadRules& rules);

}  // namespace kiln
