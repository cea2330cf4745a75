// `kiln db refresh`.
#pragma once

#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

extern const Manual kRefreshManual;

/// With `check` the file is opened read only. check_failed: something is left to be raced.
Result<Outcome> refresh_database(const Session& session, const DatabaseOptions& database,
                                 bool check);

}  // namespace kiln::cli
