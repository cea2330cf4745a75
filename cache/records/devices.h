// Devices of the files, and what they were seen to reach.
#pragma once

#include <optional>
#include <vector>

#include "cache/record.h"
#include "kiln/error.hpp"
#include "runtime/machine_limits.h"

namespace kiln {

class Layers;

class Devices {
 public:
  explicit Devices(Layers& layers) : layers_(layers) {}

  /// Whether a file whose machine code may be loaded has rows of this device.
  bool knows(const DeviceCaps& device);
  /// Every device of files whose machine code may be loaded, the user's own file first.
  std::vector<DeviceCaps> list();
  /// The most operations a second that a device's `compute_units` threads are known to reach with
  /// operands of this type; 0: nothing is known.
  double peak(const DeviceCaps& device, DType type);
  /// Says that they reached so many; kept where it is more than what is known.
  Status raise_peak(const DeviceCaps& device, DType type, double flops);
  /// What a device's `compute_units` threads were seen to reach: the newest of all files, if any.
  std::optional<MachineLimits> limits(const DeviceCaps& device);
  /// Stores that as measured just now, in place of what was there. Errors: bad_input (a figure
  /// below 0, no fp32_flops), database.
  Status put_limits(const MachineLimits& limits);

 private:
  Layers& layers_;
};

}  // namespace kiln
