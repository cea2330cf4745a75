// The enums that the CUDA families' configs share.
#pragma once

#include <array>
#include <cstdint>

#include "generator/space/field.h"

namespace kiln {

/// How tiles and k are divided among blocks: `tiles` (data-parallel); `split` (split-K, reduced by
/// the block that finishes a tile last); `stream` (stream-K: the k of the last waves is divided
/// evenly among all blocks); `summed` (split-K, reduced by a launch of its own).
enum class Sharing : std::uint8_t { tiles, split, stream, summed };
/// Rasterization: bands of tiles along the left or the right side of D, so that L2 serves what
/// neighbouring tiles read, or a Hilbert curve through squares of tiles.
enum class Along : std::uint8_t { left, right, hilbert };

inline constexpr std::array<Named<Sharing>, 4> kNamesOfSharing{{{Sharing::tiles, "tiles"},
                                                                {Sharing::split, "split"},
                                                                {Sharing::stream, "stream"},
                                                                {Sharing::summed, "summed"}}};
inline constexpr std::array<Named<Along>, 3> kNamesOfAlong{
    {{Along::left, "left"}, {Along::right, "right"}, {Along::hilbert, "hilbert"}}};
constexpr const auto& names_of(Sharing) { return kNamesOfSharing; }
constexpr const auto& names_of(Along) { return kNamesOfAlong; }

/// Exchanges within lines of shared memory: `bits` bits of a byte's place, from bit `base` on, with
/// those of the line's number from bit `shift` on.
struct Exchange {
  int bits = 0, base = 0, shift = 0;
  auto operator<=>(const Exchange&) const = default;
};

}  // namespace kiln
