// Bank conflicts of one warp access to an NVIDIA GPU's shared memory, and the swizzle of a tile's
// lines that leaves a kernel of cuda_mma none. Knows addresses only.
#pragma once

#include <optional>
#include <span>

#include "generator/families/cuda/common/choices.h"
#include "kiln/dtype.hpp"

namespace kiln::cuda {

/// Cycles lost to bank conflicts by an access of `bytes` bytes a lane: each cycle serves 128 bytes
/// of consecutive lanes.
int turns_lost(std::span<const int> addresses, int bytes);

/// A tile of one operand as a kernel of cuda_mma keeps it.
struct TileLines {
  DType type;
  bool is_a, along_k;
  int rows, k;
  auto operator<=>(const TileLines&) const = default;
  int pitch() const { return (along_k ? k : rows) * size_of(type); }
  int lines() const { return along_k ? rows : k; }
};

/// Cycles lost to bank conflicts by all accesses of a warp to the tile.
int turns_lost(const TileLines& tile, Exchange exchange);

/// Exchanges that stay within a line, and whose bits are the same for all lines that a lane reads:
/// its first line's number and those that the reader adds differ in other bits.
bool is_sound(const TileLines& tile, Exchange exchange);

/// The first sound exchange without conflicts, or nothing.
std::optional<Exchange> conflict_free(const TileLines& tile);

}  // namespace kiln::cuda
