// What a fleet's folder holds, merged and said: for `kiln fleet` and for rank 0 of an MPI job.
#pragma once

#include "cli/session.h"
#include "fleet/folder.h"

namespace kiln::cli {

/// Merges each kind of device and says what is missing. check_failed: something is missing or was
/// left out. Errors: database; not_tuned (there are no results).
Result<Outcome> merge_and_report(const Session& session, const FleetFolder& folder);
/// Says what the merged files lack, without merging.
Result<Outcome> report_fleet(const Session& session, const FleetFolder& folder);

}  // namespace kiln::cli
