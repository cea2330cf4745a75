// The costs around a kernel that `kiln bench` measures on one shape: the call, the start of a
// process, the search. Knows options and reports; the measuring is bench/overhead.h's.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/session.h"
#include "kiln/options.hpp"

namespace kiln::cli {

struct Extras {
  bool overhead = false, cold_start = false, search_quality = false;
  bool cold_start_child = false;  // hidden: the process that --cold-start starts
  std::string ladder;             // the dtype of the ladder; empty: no ladder

  void add_to(CLI::App& app);
  bool wanted() const { return overhead || cold_start || search_quality || cold_start_child; }
};

/// The one shape they run on.
struct ExtrasInput {
  Gemm gemm;
  int threads = 0;
  double budget_seconds = 10;
  std::uint64_t seed = 1;
  OpenOptions open;
};

/// Errors: those of bench/overhead.h.
Result<Outcome> run_extras(bool json, const Extras& extras, const ExtrasInput& input);

}  // namespace kiln::cli
