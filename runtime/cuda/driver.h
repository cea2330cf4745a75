// NVIDIA's driver behind the table of runtime/gpu/driver.h. Knows no kernels.
#pragma once

#include <string>

#include "runtime/gpu/driver.h"

namespace kiln::cuda {

/// The driver, opened and initialised once; the same answer ever after. Errors: device (no driver
/// on this machine, one older than 11.8, or one that finds no device), as a sentence.
Result<const gpu::Driver*> driver();

/// "12.8" of the driver's 12080.
std::string version_text(int version);

}  // namespace kiln::cuda
