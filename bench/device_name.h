// How tables of stored measurements name a device.
#pragma once

#include <fmt/format.h>

#include <string>

#include "runtime/backend.h"

namespace kiln {

/// Its model and, of a CPU, the threads.
inline std::string device_name(const DeviceCaps& device) {
  return on_host(device) ? fmt::format("{}, {} threads", device.model, device.compute_units)
                         : device.model;
}

}  // namespace kiln
