// `kiln tune --offline`: ranks kernels for a GPU that this machine lacks and stores the
// predictions.
#pragma once

#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

struct OfflineCommand {
  std::vector<Shape> shapes;
  DeviceOptions device;
  DatabaseOptions database;
  double budget = 60;
};

Result<Outcome> run_offline(const Session& session, const OfflineCommand& command);

}  // namespace kiln::cli
