// What is worth tuning of recorded calls: single problems, and ranges of m. Pure.
#pragma once

#include <optional>
#include <vector>

#include "kiln/range.hpp"

namespace kiln {

/// A problem that was called on so many threads.
struct RecordedWork {
  Gemm gemm;
  int threads = 1;
  double total_ns = 0;  // of all its calls
  bool tuned = false;
};

/// What is tuned at once.
struct WorkItem {
  Gemm gemm;  // of a range, that of the largest size
  std::optional<GemmRange> range;
  int threads = 1;
};

/// Untuned problems first, then by the time of their calls. Four and more untuned problems that
/// differ in m alone are one range, from the smallest m to the largest, unless `each`.
std::vector<WorkItem> work_items(const std::vector<RecordedWork>& work, bool each = false);

}  // namespace kiln
