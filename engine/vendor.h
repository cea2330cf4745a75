// Whether the vendor's library runs instead of kiln's winner, where the caller allows it: a look at
// the rows of a race. Knows no device and no library.
#pragma once

#include <optional>
#include <span>

#include "tuner/measure/measured.h"

namespace kiln {

/// The fastest row of this `version` of the library (CudaLibrary::version) that beats `winner` by
/// more than the margin that any challenger of an incumbent needs, or nothing. Rows of another
/// version, or of none, do not count: their number may name another algorithm today.
std::optional<Measured> preferred_library(const Measured& winner, std::span<const Measured> rows,
                                          int version);

}  // namespace kiln
