// Timing of calls on a GPU: operand sets that outlast the L2 cache, graphs of launches between
// device events, medians. Used by the tuner's worker and by `kiln bench`, the vendor's library
// included, so that all are measured alike. Knows no kernels and no verification.
#pragma once

#include <string_view>
#include <vector>

#include "kiln/options.hpp"
#include "tuner/measure/gpu_clocks.h"
#include "tuner/measure/load_race.h"
#include "tuner/verify/gpu_check.h"

namespace kiln {

// The measurement policy of the GPUs' rows (Backend::policy), part of every record's key:
// - alpha = 1, beta = 0, inputs uniform in [-1, 1], outputs not touched between calls;
// - calls rotate through as many sets of operands as exceed twice the L2 cache (one where a single
//   set is four times as large), so none finds its operands there;
// - a sample is a graph that walks once or more through all sets and lasts at least 0.2 ms, timed
//   by the device's events: the host's launch cost is in no contender's time;
// - in a race the device rests after each sample for three times as long (100 ms at most): at its
//   power limit, which a second of large products reaches, all contenders take the same time;
// - a sample across which the SM clock changed is dropped and repeated, where there is a sensor to
//   tell and the clock ever settles (tuner/measure/gpu_clocks.h);
// - the figure is the median of the samples.

/// Operands on the device, filled. Move-only.
class GpuOperandSets {
 public:
  /// Bytes of the device that `make` takes.
  static double bytes_needed(const Problem& problem, std::int64_t l2_bytes);
  /// Errors: device (more than is free; found out before anything is allocated).
  static Result<GpuOperandSets> make(const GpuTools& tools, const Problem& problem,
                                     std::uint64_t seed);
  int count() const { return static_cast<int>(sets_.size()); }
  /// alpha = 1, beta = 0, C is D, no workspace.
  const KilnGpuArgs& operator[](int set) const { return sets_[static_cast<std::size_t>(set)]; }

 private:
  gpu::DeviceBuffer memory_;
  std::vector<KilnGpuArgs> sets_;
  std::vector<std::vector<ListEntry>> lists_;  // of the sets, where the problem is a list
};

/// Sets to rotate through for a problem of which one call touches `set_bytes`.
int gpu_rotation_sets(std::int64_t set_bytes, std::int64_t l2_bytes);

/// One contender, ready to be sampled. Move-only.
class GpuCalls {
 public:
  /// Runs it a few times to warm up and to choose the graph's length. Errors: device (a launch was
  /// refused, or the device gave up).
  static Result<GpuCalls> make(const GpuTools& tools, const GpuOperandSets& sets,
                               const RunOnGpu& run);
  GpuCalls(GpuCalls&& other) noexcept;
  GpuCalls& operator=(GpuCalls&&) = delete;
  ~GpuCalls();

  /// Takes one sample beside `watch`; false: it does not stand, and was dropped. Errors: device.
  Result<bool> sample(ClockWatch& watch);
  /// Takes samples until there are `total`, or `budget_ns` of device time are spent after one.
  Status take(int total, double budget_ns);
  /// Replays its graph back to back for about `ns`; see RunBlock. Errors: device.
  Result<LoadBlock> block(double ns, const std::function<void()>& meanwhile);
  const std::vector<double>& samples() const { return samples_; }
  const gpu::Telemetry* sensors() const { return tools_->sensors(); }
  Timing timing() const;
  /// Device time of the last sample, dropped or not.
  double last_ns() const { return last_ns_; }

 private:
  GpuCalls(const GpuTools& tools, gpu::OwnedEvent begin, gpu::OwnedEvent end)
      : tools_(&tools), begin_(std::move(begin)), end_(std::move(end)) {}
  /// Device time of what `work` enqueues; `meanwhile` is called before the wait for it.
  Result<double> timed(
      const std::function<Status()>& work, const std::function<void()>& meanwhile = [] {}) const;
  Result<double> replay(
      std::int64_t times = 1, const std::function<void()>& meanwhile = [] {}) const;
  Status record(const GpuOperandSets& sets, const RunOnGpu& run);

  const GpuTools* tools_;
  gpu::OwnedEvent begin_, end_;
  gpu::GraphExec graph_ = nullptr;
  int launches_ = 1;
  double last_ns_ = 0;
  double graph_ns_ = 0;  // of a replay, the newest seen
  std::vector<double> samples_;
};

/// Samples contenders in turn, in an order that rotates by one each round, until each has `samples`
/// or `budget_ns` are spent, rests included, and each has `min_samples`, or `stop` says so.
/// `on_turn` hears whose turn it is, before each. Returns the conditions it was run in.
Result<GpuConditions> gpu_race(std::vector<GpuCalls*> contenders, int samples, int min_samples,
                               double budget_ns,
                               const std::function<bool(const std::vector<Timing>&)>& stop,
                               const std::function<void(const GpuCalls*)>& on_turn = {});
/// The same under load, with the sensors of the contenders' device.
Result<LoadRace> gpu_race_under_load(const std::vector<GpuCalls*>& contenders,
                                     const LoadRules& rules);

}  // namespace kiln
