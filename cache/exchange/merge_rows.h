// The steps of a merge within SQL: the other file is attached as `other`
// (cache/exchange/attached_file.h). cache/exchange/merge.h says what is kept. Throws what SQLite
// throws.
#pragma once

#include <SQLiteCpp/Database.h>

#include <vector>

#include "cache/exchange/merge.h"

namespace kiln {

/// What the attached file is.
enum class Other {
  file,  // its winners are marked as such
  pile   // several files together: their winners stand in its table `claimed`
};
/// The launch of a row that won somewhere and is evidence here, where it is not known.
inline constexpr const char* kUnknownLaunch = "?";

/// Everything but who wins. Leaves the temporary tables `claim` (measurements that the other file
/// calls winners, or that a merge before it did) and `held` (winners here before).
void merge_rows(SQLite::Database& db, Other other, bool with_code, MergeReport& report);

/// Names one winner for each key of which rows came. Returns those for which several stood, without
/// the files' names.
std::vector<MergeConflict> choose_winners(SQLite::Database& db, MergeReport& report);

/// Drops what merge_rows() left.
void forget_merge(SQLite::Database& db);

}  // namespace kiln
