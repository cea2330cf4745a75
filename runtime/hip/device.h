// AMD GPUs of this machine: what HIP says of them, completed from the table of known cards. Once
// open they are devices like any other (runtime/gpu/device.h). Knows no kernels.
#pragma once

#include <string_view>

#include "runtime/gpu/device.h"

namespace kiln::hip {

/// Devices that the runtime sees. Errors: device (no runtime, or no device).
Result<int> device_count();

/// Errors: device (no runtime, no such device, a target that kiln does not know), naming the
/// ordinal.
Result<gpu::SharedDevice> open_device(int ordinal);

}  // namespace kiln::hip
