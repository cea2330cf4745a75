// `kiln fleet slurm`: a list as a job array, from the script to the merged files.
#pragma once

#include <string>

#include "cli/commands/tune_items.h"
#include "fleet/slurm.h"

namespace kiln::cli {

struct SlurmCommand {
  TuneCommand tune;
  SlurmJob job;
  std::string kiln;  // the command on the nodes; empty: this one
  bool dry_run = false;
  bool only_missing = false;
  bool detach = false;
};

void add_fleet_slurm(CLI::App& parent, Session& session);

}  // namespace kiln::cli
