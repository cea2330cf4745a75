// The enums that the HIP families' configs share.
#pragma once

#include <array>
#include <cstdint>

#include "generator/space/field.h"

namespace kiln {

/// How stages reach shared memory: through registers into one buffer, through registers into two
/// buffers alternately, or directly into two.
enum class Staging : std::uint8_t { single, twice, direct };

inline constexpr std::array<Named<Staging>, 3> kNamesOfStaging{
    {{Staging::single, "single"}, {Staging::twice, "twice"}, {Staging::direct, "direct"}}};
constexpr const auto& names_of(Staging) { return kNamesOfStaging; }

}  // namespace kiln
