// `kiln bench --any-m`: options and output; the race is bench/range_race.h's.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/range_race.h"
#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

struct RangeRaceFlags {
  bool wanted = false;  // --any-m
  bool dispatch_only = false;
  int count = 40;
  double range_budget = 60;

  void add_to(CLI::App& app);
};

/// Errors: bad_input (a shape without a range), those of run_range_race().
Result<Outcome> race_ranges(const Session& session, const RangeRaceFlags& flags,
                            const std::vector<Shape>& shapes, RangeRaceOptions options,
                            const std::string& svg_file);

/// Errors: device (cannot be written).
Status write_text(const std::string& option, const std::string& file, const std::string& text);

}  // namespace kiln::cli
