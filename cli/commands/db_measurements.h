// `kiln db measurements`, and the import of T4 files.
#pragma once

#include <string>

#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

extern const Manual kMeasurementsManual;

struct MeasurementsCommand {
  ShapeOptions shapes;
  std::string device;
  bool winners = false, csv = false, t4 = false;

  void add_to(CLI::App& app);
};

Result<Outcome> print_measurements(const Session& session, const DatabaseOptions& database,
                                   const MeasurementsCommand& command);

/// What a T4 file of another program does not say.
struct T4Options {
  bool given = false;
  std::string shape;
  DeviceOptions device{.name = ""};

  void add_to(CLI::App& app);
};

Result<Outcome> import_t4(const Session& session, const DatabaseOptions& database,
                          const std::string& file, const T4Options& options);

}  // namespace kiln::cli
