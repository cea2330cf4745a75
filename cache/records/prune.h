// Making a database smaller: what nobody needs any more goes, the winners stay.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace kiln {

/// Conditions of age and device hold together; that of size comes after them.
struct PruneOptions {
  double older_than_days = -1;  // measurements made before that; negative: of any age
  std::string device = {};      // of devices whose fingerprint contains this; empty: of all
  /// Drops code that no winner names, then losers, first of configs that won nowhere, the slowest
  /// first, until the file is no larger; 0: no limit.
  std::int64_t most_bytes = 0;
  bool winners_too = false;  // winners, fitted models and tables of ranges as well
  bool dry_run = false;      // says what it would do, and writes nothing
};

struct PruneReport {
  std::map<std::string, std::int64_t> dropped;  // rows by table, of which there are any
  std::int64_t winners = 0;                     // of the measurements dropped
  std::int64_t bytes_before = 0;                // of the file
  std::int64_t bytes_after = 0;                 // of a dry run: what it would be, or a little less
  /// False: what must stay is larger than most_bytes, and nothing was dropped; the rest of the
  /// report says what would have been.
  bool small_enough = true;
};

}  // namespace kiln
