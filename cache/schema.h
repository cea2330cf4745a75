// The shape of the file, as a table of migration steps: version N+1 is one more row. Knows SQL;
// knows nothing of what the rows mean.
#pragma once

#include <SQLiteCpp/Database.h>

#include <span>

#include "kiln/error.hpp"

namespace kiln {

struct Migration {
  int version;      // user_version after this step
  const char* sql;  // statements that lead there from the step before; none: newer frames alone
  /// What SQL cannot compute, after `sql` and in the same transaction. Null: nothing.
  void (*then)(SQLite::Database& db) = nullptr;
  /// `sql` makes tables and nothing else: a file from before reads as one in which they are empty,
  /// and whoever reads them asks whether they are there.
  bool only_tables = false;
};

/// Every step so far, in order; never edited once released, only added to.
std::span<const Migration> migrations();
inline int schema_version() { return migrations().back().version; }
/// Whether a file of this version, today's or older, reads as one of today: the steps since then
/// have changed nothing in it, or have made tables that may be missing.
bool reads_as_today(int version);
/// Whether the file that is open as `schema` has the table `limits`. Throws what SQLite throws.
bool has_limits(SQLite::Database& db, const char* schema = "main");

/// "kiln" in the header of the file, so that another program's database is told apart.
inline constexpr int kApplicationId = 0x6b696c6e;

/// Version of an open file; 0 = empty. Errors: database (another program's file, a schema newer
/// than `steps`), naming `name`. Throws what SQLite throws.
Result<int> read_version(SQLite::Database& db, const std::string& name,
                         std::span<const Migration> steps = migrations());

/// Brings an open, writable file up to date, all steps in one transaction. Errors as read_version.
Status migrate(SQLite::Database& db, const std::string& name,
               std::span<const Migration> steps = migrations());

}  // namespace kiln
