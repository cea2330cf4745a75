// How many turns the banks of shared memory need for one instruction of a wave. Lanes go in groups,
// and only lanes of one group can be in each other's way; groups and banks were measured by others
// on these targets. Knows addresses only.
#pragma once

#include <array>
#include <cstdint>

#include "generator/mfma.h"

namespace kiln::hip {

enum class LdsOp : std::uint8_t { read_b128, write_b128, read_b64_tr };

using LaneAddresses = std::array<std::uint32_t, 64>;  // bytes, multiples of what a lane reads

/// Turns of one instruction, and those of the same instruction without conflicts.
struct LdsTurns {
  int taken = 0, least = 0;
  int lost() const { return taken - least; }
};

/// What is not known of a target (writes on gfx950, everything on gfx90a) is taken to be as on
/// gfx942; reads that turn matrices over, as the other reads of 8 bytes.
LdsTurns lds_turns(ArchSet arch, LdsOp op, const LaneAddresses& addresses);

}  // namespace kiln::hip
