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
  double error = 0;                        // log of time over model, where it was timed nowhere
};

/// Neighbouring sizes of a range, up to `last`, and the kernel that serves them.
struct RangeChoice {
  std::int64_t last = 0;
  std::size_t kernel = 0;
  double expected_ns = 0;  // at `last`
};

/// The sizes at which a whole search is made: both ends, powers of four between them, and on a GPU,
/// where few waves run and tiles begin to be of use, powers of two.
std::vector<std::int64_t> searched_sizes(const GemmRange& range, bool on_host);

class RangeModel {
 public:
  RangeModel(const GemmRange& range, const DeviceCaps& device,
             Determinism determinism = Determinism::run_to_run)
      : range_(range), device_(device), determinism_(determinism) {}

  std::vector<RangeKernel> kernels;

  Problem problem_at(std::int64_t size) const;
  /// Whether a kernel's rules allow a size, and what the analytic model says of it there.
  bool allows(const RangeKernel& kernel, std::int64_t size) const;
  double predicted_ns(const RangeKernel& kernel, std::int64_t size) const;
  /// Whether it computes the problem of a size with its code, and the class of determinism allows
  /// it there. Costs more than the others.
  bool serves(const RangeKernel& kernel, std::int64_t size) const;
  /// Nanoseconds of a kernel that serves the size: measured, or the analytic model's times the
  /// error that it had at the sizes measured on both sides.
  double expected_ns(const RangeKernel& kernel, std::int64_t size) const;
  /// A time of a kernel. A new one joins the others, and with it its form for sizes that end within
  /// a tile, expected to err from the model as it does.
  void add(const Config& config, std::int64_t size, double ns);
  /// The largest sizes before a kernel needs another tile, and the smallest after them; the range's
  /// last. Ascending.
  std::vector<std::int64_t> steps() const;
  /// Of those, `per_doubling` in each doubling of the size from the first to the last of `sizes`,
  /// less these: where kernels are to be timed. Coarse first: what stops early has covered the
  /// range.
  std::vector<std::int64_t> timed_sizes(const std::vector<std::int64_t>& sizes,
                                        int per_doubling) const;
  /// Kernels worth timing at a size, the fastest expected first.
  std::vector<std::size_t> promising(std::int64_t size) const;
  /// Configs that are none of the kernels and may be faster at a size, as a search would propose
  /// that knows the times of all kernels there: `codes` with new code, `more` that share it.
  std::vector<Config> fresh(std::int64_t size, std::uint64_t seed, int codes, int more) const;
  /// The table: kernels of at most `most` binaries, fewer where that loses at most 1 %. Sizes that
  /// no kernel serves go with their neighbours.
  std::vector<RangeChoice> choose(std::size_t most) const;

 private:
  /// How many neighbouring sizes of the range a tile of the kernel covers; 0: its code is for this
  /// size alone.
  std::int64_t tile_length(const RangeKernel& kernel, std::int64_t size) const;

  GemmRange range_;
  DeviceCaps device_;
  Determinism determinism_;
};

}  // namespace kiln
