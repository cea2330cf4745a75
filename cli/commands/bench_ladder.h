// `kiln bench --ladder`: prints what bench/ladder.h climbs, as a table or as JSON lines.
#pragma once

#include "bench/ladder.h"
#include "cli/session.h"

namespace kiln::cli {

/// Errors: those of ladder_named and climb. A rung that was not raced or is wrong makes the outcome
/// check_failed.
Result<Outcome> run_ladder(bool json, const Ladder& ladder, LadderOptions options);

}  // namespace kiln::cli
