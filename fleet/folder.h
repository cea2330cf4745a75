// The folder that the processes of a fleet share: which list they tune and in how many parts, and
// where each keeps its results, by kind of device. Knows no devices and tunes nothing.
//
//   fleet.json                      the list and the number of shards; written once, then compared
//   <kind>/shard-3-of-8.kiln        one database a shard (rank-2.kiln under MPI)
//   <kind>/shard-3-of-8.jsonl       what that shard began and ended, a line each
//   <kind>.kiln                     the merged file
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fleet/shard.h"
#include "fleet/work_list.h"
#include "kiln/options.hpp"

namespace kiln {

/// What all processes of a fleet must agree on.
struct FleetPlan {
  std::vector<FleetItem> list;  // ordered()
  int shards = 0;               // 0: rank 0 of an MPI job hands out the items
  Determinism determinism = Determinism::run_to_run;
  auto operator<=>(const FleetPlan&) const = default;
};

class FleetFolder {
 public:
  /// Makes the folder where it is absent and writes the plan into it, or compares the plan with
  /// the one that is there; whoever comes first writes. A folder that others can change is warned
  /// of. Errors: bad_input (another list, another number of shards or class of determinism, naming
  /// it; everybody may write the folder), database (cannot be made, written or read; of another
  /// version).
  static Result<FleetFolder> join(const std::filesystem::path& path, const FleetPlan& plan);
  /// A folder that is there. Errors: bad_input (no fleet's folder), database.
  static Result<FleetFolder> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const FleetPlan& plan() const { return plan_; }
  /// Kinds of devices with results, merged or not, in order.
  std::vector<std::string> kinds() const;
  /// Makes the kind's folder where it is absent. Errors: database.
  Status add_kind(const std::string& kind) const;
  /// "shard-3-of-8", "rank-2".
  static std::string part_name(const Shard& shard);
  static std::string part_name(int rank);
  std::filesystem::path database_of(const std::string& kind, const std::string& part) const;
  std::filesystem::path log_of(const std::string& kind, const std::string& part) const;
  std::filesystem::path merged(const std::string& kind) const;
  /// Databases of the kind's parts, or their logs, in order of their names.
  std::vector<std::filesystem::path> databases(const std::string& kind) const;
  std::vector<std::filesystem::path> logs(const std::string& kind) const;

 private:
  FleetFolder(std::filesystem::path path, FleetPlan plan)
      : path_(std::move(path)), plan_(std::move(plan)) {}
  std::filesystem::path path_;
  FleetPlan plan_;
};

}  // namespace kiln
