// `kiln db diff`: winners of two files, or of two drivers in one.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

extern const Manual kDiffManual;

struct DiffCommand {
  std::vector<std::string> files, drivers;
  std::string device;
  bool all = false;

  void add_to(CLI::App& app);
};

Result<Outcome> diff_databases(const Session& session, const DatabaseOptions& database,
                               const DiffCommand& command);

}  // namespace kiln::cli
