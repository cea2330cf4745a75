// `kiln tune --shard` and `--mpi`: a list that several processes tune, each into a database of its
// own in a folder that they share.
#pragma once

#include "cli/commands/tune_items.h"
#include "fleet/folder.h"
#include "fleet/part.h"

namespace kiln::cli {

/// The list that the command names, in a fleet's order. Errors: as ShapeOptions::collect_ranges()
/// and read_calls(); bad_input where nothing was recorded.
Result<std::vector<FleetItem>> fleet_list(const TuneCommand& command);

/// Of one part's run, beside the totals.
struct PartRun {
  FleetPart& part;
  const Session& session;
  const TuneCommand& command;
  TuneTotals totals = {};
};
/// Tunes an item where something is left to do, waiting for its device where others tune on it,
/// and notes in the part's log how that ended.
FleetState tune_part_item(PartRun& run, const FleetItem& item, const std::string& label);

Result<Outcome> run_shard(const Session& session, const TuneCommand& command);

}  // namespace kiln::cli
