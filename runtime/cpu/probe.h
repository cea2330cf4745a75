// What this machine reaches right now: FMA and memory limits, and whether a core is really ours.
// Knows no kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kiln/dtype.hpp"
#include "kiln/error.hpp"
#include "runtime/cpu/peak_loops.h"
#include "runtime/machine_limits.h"

namespace kiln {

/// Whether the peak of products of this type can be probed on this CPU: of floating types wider
/// than 8 bits always, by the matrix unit where it multiplies them; of bytes where there is an
/// instruction for them.
bool has_fma_probe(DType type);

/// Multiply-adds in registers on every thread of a team; the time they take tells the clock and
/// whether the core was shared meanwhile. Not thread-safe.
class SpeedGate {
 public:
  /// Multiplies as the fastest kernels of the type do; in fp32 where that has no probe.
  explicit SpeedGate(int threads, DType type = DType::fp32);
  /// ~0.1 ms of work on each thread. Speed of the slowest thread relative to the fastest of the
  /// last 64 samples, 0..1: under 0.9, a time slice was stolen or the clock fell, and what was
  /// timed beside it is suspect. Measured against a window, so that a lasting change of clock
  /// (another licence or temperature) becomes the new normal.
  double sample();
  /// Nanoseconds of the newest sample's slowest thread.
  double last_ns() const { return last_ns_; }
  /// Operations a second (a multiply-add is two) of the fastest sample so far, all threads
  /// together, from the first one's begin to the last one's end: never more than the machine really
  /// did. 0 before the first sample.
  double peak_flops() const { return peak_flops_; }

 private:
  int threads_;
  PeakLoop loop_;
  std::int64_t rounds_;
  std::array<double, 64> window_{};
  std::size_t next_ = 0;
  double last_ns_ = 0, peak_flops_ = 0;
};

/// SpeedGate::peak_flops() of a hundred samples, which take ~10 ms; `threads` or as many as the
/// system gives. Errors: bad_input (type).
Result<double> fma_peak(DType type, int threads);

/// Bytes a second that `threads` threads read together by their widest loads, each the same `bytes`
/// bytes of its own over and over. Meant for sizes that fit L1 or L2. Errors: bad_input (bytes),
/// device (no memory).
Result<double> cache_bandwidth(std::int64_t bytes, int threads);

/// Bytes a second that `threads` threads read together, each its own share of `bytes` bytes. Meant
/// for sizes past L2: one word of each line is loaded. Errors: bad_input (bytes), device (no
/// memory).
Result<double> read_bandwidth(std::int64_t bytes, int threads);

/// The reference lines of a benchmark, at the device's `compute_units` threads. Takes 0.5 to
/// 2 s and up to 1 GiB. Errors: device (no memory).
Result<MachineLimits> measure_limits(const DeviceCaps& device);

}  // namespace kiln
