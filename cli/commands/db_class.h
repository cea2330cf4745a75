// `kiln db class`.
#pragma once

#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

extern const Manual kClassManual;

struct ClassCommand {
  std::vector<std::string> classes;
  ShapeOptions kinds;
  int jobs = 0;

  void add_to(CLI::App& app);
};

/// Makes the kernels of the classes in the user's database. check_failed: some did not come
/// through.
Result<Outcome> make_classes(const Session& session, const DatabaseOptions& database,
                             const ClassCommand& command);

}  // namespace kiln::cli
