// Part of the migration to schema 4: binaries that were known by the hash of their whole text
// become known by that of their tokens, and those that turn out to be one are united.
#pragma once

#include <SQLiteCpp/Database.h>

namespace kiln {

/// Renames every binary whose source is kept, where records and proofs name it too. Throws what
/// SQLite throws.
void know_code_by_tokens(SQLite::Database& db);

}  // namespace kiln
