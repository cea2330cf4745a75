// Which kernels serve a range of sizes: where to search, where to measure, and from what was
// measured a table with few kernels. Pure: knows models and tiles, no device and no database.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "generator/space/code_class.h"
#include "kiln/options.hpp"
#include "kiln/range.hpp"

namespace kiln {

/// A kernel that may serve sizes of a range.
struct RangeKernel {
  Config config;
  CodeClass code;                          // it serves problems of this code
  std::map<std::int64_t, double> ns = {};  // by size, where it was timed
};

/// Neighbouring sizes of a range, up to `last`, and the kernel that serves them.
struct RangeChoice {
  std::int64_t last = 0;
  std::size_t kernel = 0;
  double expected_ns = 0;  // at `last`
};

/// The sizes at which a whole search is made: both ends, powers of two between them, and where
/// tiles begin to be of use also three quarters of these. On a CPU, where a search is long and the
/// best kernel changes less with the size, every other power of two from 16 on.
std::vector<std::int64_t> searched_sizes(const GemmRange& range, bool on_host);

class RangeModel {
 public:
  RangeModel(const GemmRange& range, const DeviceCaps& device,
             Determinism determinism = Determinism::run_to_run)
      : range_(range), device_(device), determinism_(determinism) {}

  std::vector<RangeKernel> kernels;

  /// Whether a kernel computes the problem of a size with its code, and the class of determinism
  /// allows it there.
  bool serves(const RangeKernel& kernel, std::int64_t size) const;
  /// Nanoseconds of a kernel that serves the size: measured, or the analytic model's times the
  /// error that it had at the sizes measured on both sides.
  double expected_ns(const RangeKernel& kernel, std::int64_t size) const;
  /// The largest sizes before a kernel needs another tile, and the range's last, ascending.
  std::vector<std::int64_t> steps() const;
  /// Of those, three between each two of `sizes` that are not close: where kernels are to be timed,
  /// `sizes` included.
  std::vector<std::int64_t> timed_sizes(const std::vector<std::int64_t>& sizes) const;
  /// Kernels worth timing at a size, the fastest expected first.
  std::vector<std::size_t> promising(std::int64_t size) const;
  /// The table: at most `most` kernels, fewer where that loses at most 1 %. Sizes that no kernel
  /// serves go with their neighbours.
  std::vector<RangeChoice> choose(std::size_t most) const;

 private:
  GemmRange range_;
  DeviceCaps device_;
  Determinism determinism_;
};

}  // namespace kiln
