// `kiln db compact`: the same rows in fewer bytes.
#pragma once

#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

extern const Manual kCompactManual;

Result<Outcome> compact_database(const Session& session, const DatabaseOptions& database);

}  // namespace kiln::cli
