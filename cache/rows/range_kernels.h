// The kernels that tables of ranges name, as rows of their own: a range keeps its kernels whatever
// is tuned for single sizes of it. Their policy is that of the range and says which range, so each
// is the winner of a key that no search of a single size writes.
#pragma once

#include <SQLiteCpp/Database.h>

#include <string>
#include <string_view>

#include "cache/record.h"
#include "cache/rows/range_table.h"

namespace kiln {

/// "cuda-cold-v1 m=1..8192".
std::string range_policy(std::string_view policy, const GemmRange& range);
/// SQL: the policies of problems, without those of ranges.
inline constexpr const char* kOfSingleSizes = "instr(measurement.policy, ' ') = 0";

/// Copies what was measured and verified of each kernel at the size its cells name: that row may be
/// any winner's or a loser's from then on. Rows of a table of the same range that was there before
/// are removed, and code that no other winner names. A kernel that is nowhere gets no row.
void keep_range_kernels(SQLite::Database& db, const BestKey& key, const GemmRange& range,
                        const RangeTable& table);
/// The same for every stored range, of sound winners alone: what schema 9 begins with.
void keep_range_kernels(SQLite::Database& db);

}  // namespace kiln
