// What an NVIDIA GPU really executes, as text: the toolkit's nvdisasm, where it is installed. Knows
// cubins only as bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kiln/error.hpp"

namespace kiln::cuda {

/// Errors: device (no nvdisasm: where it was looked for; or it refuses the cubin).
Result<std::string> disassemble(std::span<const std::byte> cubin);

}  // namespace kiln::cuda
