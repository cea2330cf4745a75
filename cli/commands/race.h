// A list of problems, raced and printed: what `kiln bench` and `kiln sweep` share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "bench/against.h"
#include "bench/bench.h"
#include "cli/options.h"
#include "cli/session.h"

namespace kiln::cli {

struct RaceCommand {
  DeviceOptions device;  // its thread count is left alone: a race takes several
  DatabaseOptions database;
  DeterminismOption determinism;
  BenchOptions race;
  double budget = 10;
  std::string csv, against;
  AgainstOptions against_options;

  void add_to(CLI::App& app);
};

/// Errors: bad_input (thread counts, of a GPU).
Status check_threads(const RaceCommand& command);

/// What else is made of the results, before the exit code is known.
using AfterRace = std::function<Status(const BenchReport&)>;

/// Call enter_peer_environment() first. Errors: bad_input (--against), those of run_bench(), of
/// writing, and of `after`.
Result<Outcome> run_race(const Session& session, const RaceCommand& command,
                         std::vector<Gemm> gemms, const AfterRace& after = {});

}  // namespace kiln::cli
