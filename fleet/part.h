// One process of a fleet: its device, its own database and log in the shared folder, and what of
// the list is its device's. Knows no command line and no MPI.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fleet/folder.h"
#include "fleet/log.h"
#include "kiln/engine.hpp"

namespace kiln {

/// What a part's engine is opened with.
struct PartOptions {
  OpenOptions engine;  // its database and shipped files are the part's
  DeviceCaps device;
  std::string name;  // FleetFolder::part_name()
  /// Files whose records count as tuned beside the folder's merged one; absent ones are left out.
  std::vector<std::filesystem::path> known;
};

struct FleetPart {
  Engine engine;
  FleetLog log;
  std::vector<FleetItem> items;  // of_device(), longest first
  std::filesystem::path database;
};

/// Errors: database (the folder or a file in it; another process has this part), and those of
/// Engine::open().
Result<FleetPart> open_part(const FleetFolder& folder, const PartOptions& options);

/// What is to be done with an item: nothing, for a record or a range's table says that its budget
/// was spent; a search that goes on from the part's own record; or a whole one, since the record
/// lies in a file that is only read and had less of a search.
enum class ToDo { nothing, search, whole_search };
ToDo to_do(Engine& engine, const FleetItem& item, double budget_seconds, int candidates,
           TuningPolicy policy = TuningPolicy::cool);

}  // namespace kiln
