// What a database holds of a problem already, for commands that plan before they tune.
#pragma once

#include <optional>

#include "cache/record.h"
#include "kiln/engine.hpp"

namespace kiln {

/// The record by which tune() of this problem would go, with its file and extent; `threads` 0: the
/// engine's default. Empty: none, or no such number of threads.
std::optional<Record> stored_record(Engine& engine, const Gemm& gemm, int threads,
                                    TuningPolicy policy = TuningPolicy::cool);

/// Whether a search of this budget, or of so many candidates (0: any number), would add nothing to
/// the record's. A record made before extents were stored counts as complete. One that was measured
/// on a disturbed machine does not, but where a number of candidates was asked for and is reached:
/// who counts them asks for the same work on any machine.
bool is_complete(const Record& record, double budget_seconds, int candidates = 0);

}  // namespace kiln
