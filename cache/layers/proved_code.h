// Steps of migrations: proofs over an envelope that do not say for which code they are.
#pragma once

#include <SQLiteCpp/Database.h>

namespace kiln {

/// Up to schema 6 such a proof named its launch and a shape. It held for the code of today's
/// generator and the shape: it now names the code's class. Those of CPUs named no threads, and
/// their list of problems was another: they are dropped, and the code is verified again when it is
/// next tuned. Throws what SQLite throws.
void name_proved_code(SQLite::Database& db);

/// In schema 7 a GPU's code was named by a hash over values that are off too. Those of CPUs stay.
/// Throws what SQLite throws.
void rename_proved_code(SQLite::Database& db);

/// Up to schema 8 the class of a CPU's code did not name the layouts of A and B. Throws what SQLite
/// throws.
void name_layouts_of_proved_code(SQLite::Database& db);

}  // namespace kiln
