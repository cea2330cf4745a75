// What tells unequal machines of a fleet apart. Pure.
#pragma once

#include <string>

#include "generator/problem/device_caps.h"

namespace kiln {

/// The device whatever number of threads a call has: a CPU's compute units are 0, a GPU's its own.
DeviceCaps of_any_threads(DeviceCaps device);

/// A name for files: the model for people, then a hash over the fingerprint of of_any_threads().
/// Devices of one name have the same records.
std::string kind_name(const DeviceCaps& device);

}  // namespace kiln
