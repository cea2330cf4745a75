// `kiln tune --mpi`: the ranks of an MPI job tune one list, which rank 0 hands out.
#pragma once

#include "cli/commands/tune_items.h"

namespace kiln::cli {

/// Errors: device (no MPI), and as run_shard().
Result<Outcome> run_ranks(const Session& session, const TuneCommand& command);

}  // namespace kiln::cli
