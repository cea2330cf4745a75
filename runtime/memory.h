// How much memory is left for this process: the machine's, or its control group's where that is
// less. Knows no problems.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "kiln/error.hpp"

namespace kiln {

/// Bytes that can be taken without swapping or being killed: what the kernel calls available, or
/// what the tightest control group above this process (either version) leaves of its limit. The
/// largest number where the system tells nothing. `root` is where proc and sys are looked for.
std::int64_t available_memory(const std::filesystem::path& root = "/");

/// Errors: device, when `bytes` are more than `available`; names `what`, which is a subject
/// ("operands of '…'"), and both sizes.
Status room_for(double bytes, std::int64_t available, const std::string& what);

}  // namespace kiln
