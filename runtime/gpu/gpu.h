// The GPUs of this machine by name, whoever made them. Knows no kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/gpu/device.h"

namespace kiln {

/// Whether the name is of the kind "cuda:N" or "hip:N".
bool names_gpu(std::string_view device);

/// Errors: bad_input (no such kind of name), device (no driver, no such device).
Result<cuda::SharedDevice> open_gpu(std::string_view name);
Result<cuda::SharedDevice> open_gpu(Vendor vendor, int ordinal);

/// "cuda:0", "cuda:1", …, "hip:0", …: those that drivers here see.
std::vector<std::string> gpus_here();

}  // namespace kiln
