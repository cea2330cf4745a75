// Whether the vendor's library runs instead of kiln's winner, where the caller allows it: a look at
// the rows of a race. Knows no device and no library.
#pragma once

#include <optional>
#include <span>

#include "tuner/measured.h"

namespace kiln {

/// The library's fastest row that beats `winner` by more than the margin that any challenger needs,
/// or nothing.
std::optional<Measured> preferred_library(const Measured& winner, std::span<const Measured> rows);

}  // namespace kiln
