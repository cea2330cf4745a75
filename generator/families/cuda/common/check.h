// The source of the kernels that check GPU kernels (templates/cuda/check/check.cu), of either
// vendor. Knows no problem: one text serves every problem of a device.
#pragma once

#include "generator/render/render.h"

namespace kiln {

/// Threads of a block of every entry.
inline constexpr unsigned kCheckThreads = 256;

/// Entries: check_fill, check_fill_nibbles, check_poison, check_around, check_sum, check_products,
/// check_judge.
Source gpu_check_source(const DeviceCaps& device);

}  // namespace kiln
