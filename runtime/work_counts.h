// Counts of what costs time on any machine alike: compilations, emulated blocks, searches, their
// candidates, processes. Tests are held to them, since seconds are the machine's. Knows no test.
#pragma once

#include <cstdint>

namespace kiln {

enum class Work : std::uint8_t {
  clang,
  nvrtc,
  hiprtc,
  emulated_blocks,
  searches,
  candidates,
  workers
};

/// Adds to the counts of this process. When it exits they are appended as one line to the file that
/// $KILN_WORK_COUNTS names: "processes=1 clang=12 nvrtc=0 …"; without that nothing is written.
void count_work(Work, std::int64_t times = 1);

}  // namespace kiln
