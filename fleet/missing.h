// How far a fleet has come: from its logs while it works, from its merged files when it has ended.
// Knows no command line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fleet/folder.h"

namespace kiln {

struct MissingItem {
  FleetItem item;
  std::string reason;     // "never begun", "failed: …"
  std::size_t place = 0;  // in the kind's list: Shard::holds() says whose it is
};

/// What the merged file of a kind holds of the list.
struct KindState {
  std::string kind, model;  // model is empty where nothing is held
  std::size_t wanted = 0;   // items that concern the kind
  std::vector<MissingItem> missing;
};
/// Errors: database (the merged file cannot be read).
Result<KindState> state_of(const FleetFolder& folder, const std::string& kind);

/// What the parts say of themselves.
struct FleetProgress {
  std::size_t done = 0;    // items with an end, each counted once a kind
  std::size_t failed = 0;  // of these
  std::size_t open = 0;    // begun by a part that has not ended them
};
FleetProgress progress_of(const FleetFolder& folder);

}  // namespace kiln
