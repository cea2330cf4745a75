// Tuning of a list on one engine, item by item, with its reports: what `kiln tune` does whether the
// list is a command's own or a fleet's.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/session.h"
#include "kiln/engine.hpp"

namespace kiln::cli {

inline constexpr double kSearchSeconds = 10, kRangeSeconds = 60, kOfflineSeconds = 60;

struct TuneCommand {
  ShapeOptions shapes;
  std::string recorded;
  bool each = false;  // of what was recorded, no range
  DeviceOptions device;
  DatabaseOptions database;
  DeterminismOption determinism;
  std::optional<double> budget;
  int candidates = 0;
  TuningPolicy policy = TuningPolicy::cool;
  std::uint64_t seed = 1;
  bool force = false;
  bool race = false;
  bool offline = false;
  std::string shard;  // "I/N"
  bool mpi = false;
  std::string out;  // of shards and ranks: the folder that they share
};

/// A shape and the threads to tune it for.
struct TuneItem {
  Shape shape;
  int threads = 0;
  bool force = false;  // whatever a record says
};

struct TuneTotals {
  int tuned = 0, already = 0, failed = 0;
  int unstored = 0;     // of those tuned: lost when this process ends
  int environment = 0;  // of those that failed: by the fault of the machine, not of the shape
  double seconds = 0;
};

/// What became of an item.
struct TuneEnd {
  bool failed = false, already = false, interrupted = false;
  bool environment = false;  // it failed by the fault of the machine
  int threads = 0;
  double seconds = 0;
  std::string reason = {};  // of what failed
};

/// Which shapes, on which device, searched for how long: what a fleet's processes are told too.
/// Returns the options that others exclude.
struct ListOptions {
  CLI::Option *recorded, *seed;
};
ListOptions add_list_options(CLI::App& app, TuneCommand& command);

/// Seconds of search that the item has.
double budget_of(const TuneCommand& command, const Shape& shape);
/// Tunes one item, reports it and adds it to the totals; `label` names it while it is tuned.
TuneEnd tune_item(const Session& session, const TuneCommand& command, Engine& engine,
                  const TuneItem& item, const std::string& label, TuneTotals& totals);
/// The last line. `reached` of `items` were begun.
Outcome print_totals(const Session& session, const TuneTotals& totals, std::size_t items,
                     std::size_t reached);

}  // namespace kiln::cli
