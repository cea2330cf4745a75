// Recorded calls as the commands take them: those of one device, with what is known of each problem
// now, in the order in which they are worth tuning.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "cache/exchange/recorded_calls.h"
#include "cli/options.h"
#include "engine/outlook.h"

namespace kiln::cli {

/// One problem and number of threads.
struct RecordedShape {
  RecordedCalls recorded;
  Result<Outlook> outlook;
  double call_ns = 0;  // mean time as recorded, else as stored or predicted; 0 = unknown

  double total_ns() const { return call_ns * static_cast<double>(recorded.calls); }
  bool tuned() const { return outlook && is_tuned(outlook->match); }
  /// What tuning it is expected to save of `total_ns()`.
  double gain_ns() const { return outlook ? outlook->gain * total_ns() : 0; }
};

struct RecordedShapes {
  std::vector<RecordedShape> shapes;  // most time first
  std::size_t elsewhere = 0;          // rows of other devices, left out
};

/// The device's rows, with `threads` (0: any number of them); equal problems are one. Looking at
/// them may compile and verify, as a call would. Errors: as read_calls(); bad_input (no row is
/// left).
Result<RecordedShapes> recorded_shapes(const std::filesystem::path& file, const Target& target,
                                       int threads, Engine& engine);

}  // namespace kiln::cli
