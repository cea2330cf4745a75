// Bank conflicts of one LDS instruction of a wave. Lanes are served in groups, and only lanes of
// one group can conflict; groups and banks are published measurements of these targets. Knows
// addresses only.
#pragma once

#include <array>
#include <cstdint>

#include "generator/families/hip/common/instructions.h"

namespace kiln::hip {

enum class LdsOp : std::uint8_t { read_b128, write_b128, read_b64_tr };

using LaneAddresses = std::array<std::uint32_t, 64>;  // bytes, multiples of what a lane reads

/// Cycles of one instruction, and of the same instruction without conflicts.
struct LdsTurns {
  int taken = 0, least = 0;
  int lost() const { return taken - least; }
};

/// Unmeasured accesses (writes on gfx950, everything on gfx90a) count as on gfx942; transposing
/// reads count as other reads of 8 bytes.
LdsTurns lds_turns(ArchSet arch, LdsOp op, const LaneAddresses& addresses);

}  // namespace kiln::hip
