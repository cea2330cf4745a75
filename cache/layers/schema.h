// The shape of the file, as a table of migration steps: version N+1 is one more row. Knows SQL;
// knows nothing of what the rows mean.
#pragma once

#include <SQLiteCpp/Database.h>

#include <span>
#include <string>

#include "kiln/error.hpp"

namespace kiln {

struct Migration {
  int version;      // user_version after this step
  std::string sql;  // statements that lead there from the step before; none: newer frames alone
  /// What SQL cannot compute, after `sql` and in the same transaction. Null: nothing.
  void (*then)(SQLite::Database& db) = nullptr;
};

/// Every step so far, in order; never edited once released, only added to. A new field of the
/// problem (kGemmFields) is a step by itself.
std::span<const Migration> migrations();
inline int schema_version() { return migrations().back().version; }
/// Whether a file of this version, today's or older, has today's tables and texts but for columns
/// of problems and measurements: the steps since then have brought nothing else.
bool reads_as_today(int version);
/// Gives the rows of such a file the columns that it lacks, with their defaults, by views of this
/// connection alone: for files that are not written.
void show_todays_columns(SQLite::Database& db, int version);

/// "kiln" in the header of the file, so that another program's database is told apart.
inline constexpr int kApplicationId = 0x6b696c6e;

/// Version of an open file; 0 = empty. Errors: database (another program's file, a schema newer
/// than `steps`, other tables, indexes, views or triggers than the steps make), naming `name`.
/// Throws what SQLite throws.
Result<int> read_version(SQLite::Database& db, const std::string& name,
                         std::span<const Migration> steps = migrations());

/// Whether an open file is a newer kiln's: its version is none of `migrations()`.
bool is_newer(SQLite::Database& db);

/// Brings an open, writable file up to date, all steps in one transaction. Errors as read_version.
Status migrate(SQLite::Database& db, const std::string& name,
               std::span<const Migration> steps = migrations());

}  // namespace kiln
