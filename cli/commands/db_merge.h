// `kiln db merge`: files of a fleet into one database, every row weighed.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

extern const Manual kMergeManual;

struct MergeCommand {
  std::vector<std::string> files;
  std::string device;
  bool dry_run = false;

  void add_to(CLI::App& app);
};

Result<Outcome> merge_databases(const Session& session, const DatabaseOptions& database,
                                const MergeCommand& command);

}  // namespace kiln::cli
