// NVIDIA GPUs of this machine: what the CUDA driver says of them. Once open they are devices like
// any other (runtime/gpu/device.h). Knows no kernels.
#pragma once

#include "runtime/gpu/device.h"

namespace kiln::cuda {

/// Devices that the driver sees. Errors: device (no driver).
Result<int> device_count();

/// Errors: device (no driver, no such device), naming the ordinal.
Result<gpu::SharedDevice> open_device(int ordinal);

}  // namespace kiln::cuda
