// Packing B for every m: writes what generator/families/cpu/common/packed_layout.h describes.
// Knows no kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "generator/families/cpu/common/packed_layout.h"
#include "kiln/error.hpp"

namespace kiln {

/// A packed copy of a B, 64-byte aligned, in huge pages where the system gives them.
struct PackedCopy {
  std::shared_ptr<const std::byte[]> data;
  std::int64_t bytes = 0;
};

/// Packs all batches of `b`, which lies as `problem` says, on threads of the pool. Its m is not
/// looked at. Errors: device (no memory).
Result<PackedCopy> pack_b(const PackedLayout& layout, const Problem& problem, const void* b,
                          int threads);

}  // namespace kiln
