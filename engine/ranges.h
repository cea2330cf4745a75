// Stored tables of tuned ranges, for the command's reports.
#pragma once

#include "kiln/engine.hpp"

namespace kiln {

/// The table that is stored for exactly this range. Errors: bad_input, not_tuned.
Result<RangeReport> stored_range(Engine& engine, const GemmRange& range, int threads);

}  // namespace kiln
