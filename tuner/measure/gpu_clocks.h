// The clock of a GPU beside its samples: which samples stand, and in what conditions they were
// taken. Knows no kernels and no timer of the device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/gpu/telemetry.h"

namespace kiln {

/// What the sensors said while samples were taken, all contenders of a race together.
struct GpuConditions {
  int readings = 0;  ///< of the SM clock; 0: this device has no sensors that kiln can read
  int sm_low_mhz = 0, sm_median_mhz = 0, sm_high_mhz = 0;
  int memory_mhz = 0;  ///< the highest, as are
  double watts = 0;
  int celsius = 0;
  std::uint64_t reasons = 0;  ///< whatever was given at any time; see gpu::slowdowns
  int dropped = 0;            ///< samples across a change of the clock
  /// False: too many were, and from then on they were kept; under load, the clock was still
  /// changing when the race began.
  bool settled = true;
  bool under_load = false;  ///< of blocks that ran back to back (tuner/measure/load_race.h)
};

/// "SM clock 1500 to 1980 MHz, median 1905; …": one line; empty where nothing is known.
std::string text(const GpuConditions& conditions);

/// Reads the SM clock before and after each sample, outside of what is timed.
class ClockWatch {
 public:
  /// Without sensors every sample stands.
  explicit ClockWatch(const gpu::Telemetry* sensors);

  void before_sample();
  /// False: the clock changed by more than a tenth, and the sample is to be taken again. Never more
  /// often than there are samples that stand, and three: a clock that wanders all the time, as at
  /// the power limit, must not keep a race from ending.
  bool sample_stands();
  /// In a race under load, where every block stands: reads the clock once, while one runs. 0: it is
  /// not told.
  int read_under_load();
  /// Looks once more: the last power and temperature belong to it.
  GpuConditions conditions();

 private:
  void look_around();

  const gpu::Telemetry* sensors_;
  int before_mhz_ = 0;
  int stood_ = 0;
  std::int64_t looked_ns_ = 0;
  std::vector<int> clocks_;
  GpuConditions seen_;
};

}  // namespace kiln
