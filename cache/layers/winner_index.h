// Which problems have a winner in a file: most look-ups of untuned problems end here, without a
// query. Throws what SQLite throws.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <memory>
#include <unordered_set>

#include "cache/record.h"

namespace kiln {

class WinnerIndex {
 public:
  /// False: the file has no winner of this key, whichever toolchain made it. Read anew when anybody
  /// has written to the file since.
  bool may_hold(SQLite::Database& db, const BestKey& key);

 private:
  bool up_to_date(SQLite::Database& db);

  std::unique_ptr<SQLite::Statement> version_;  // of what other connections have written
  std::int64_t seen_version_ = -1, seen_changes_ = -1;
  std::unordered_set<std::uint64_t> keys_;  // hashes
};

}  // namespace kiln
