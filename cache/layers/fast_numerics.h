// A step of the migration to schema 9.
#pragma once

#include <SQLiteCpp/Database.h>

namespace kiln {

/// Problems of two 8-bit floats without scales of blocks that were measured only where tensor cores
/// truncate sums become problems with numerics=fast, with all that names them: rows, seals, fits,
/// ranges, proofs. Winners that promote are winners of the problem without it too.
void make_small_floats_fast(SQLite::Database& db);

}  // namespace kiln
