// How many turns the 32 banks of an NVIDIA GPU's shared memory need for one access of a warp, and
// which exchange of bits within a tile's lines leaves a kernel of cuda_mma none to wait for. Knows
// addresses only.
#pragma once

#include <optional>
#include <span>

#include "generator/cuda_families.h"
#include "kiln/dtype.hpp"

namespace kiln::cuda {

/// Turns that an access of `bytes` bytes a lane needs beyond the least: 128 bytes are served at
/// once, for as many lanes in a row as fill them.
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

/// Turns lost by all ways in which a warp reads or writes the tile.
int turns_lost(const TileLines& tile, Exchange exchange);

/// Exchanges that stay within a line, and whose bits are the same for all lines that a lane reads:
/// its first line's number and those that the reader adds differ in other bits.
bool is_sound(const TileLines& tile, Exchange exchange);

/// The first sound exchange without conflicts, or nothing.
std::optional<Exchange> conflict_free(const TileLines& tile);

}  // namespace kiln::cuda
