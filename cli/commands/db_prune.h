// `kiln db prune`: what nobody needs any more goes, the winners stay.
#pragma once

#include <string>

#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

extern const Manual kPruneManual;

struct PruneCommand {
  std::string older_than, device, max_size;
  bool winners_too = false, dry_run = false;

  void add_to(CLI::App& app);
};

/// check_failed: what must stay is larger than the size asked for.
Result<Outcome> prune_database(const Session& session, const DatabaseOptions& database,
                               const PruneCommand& command);

}  // namespace kiln::cli
