// Looks at every row of one file with the readers that look-ups use, and removes those that cannot
// be what kiln wrote. Throws what SQLite throws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/layers/layer.h"
#include "cache/records/maintenance.h"

namespace kiln {

/// A row that should not be there.
struct BadRow {
  std::string table;
  std::int64_t id = 0;
};

/// Adds what it finds to the report: a sentence each, with file, table and row.
std::vector<BadRow> check_rows(Layer& layer, CheckReport& report);

/// Removes them, and the rows that refer to a device, problem or toolchain among them. Returns how
/// many went; what they held is measured or compiled again.
std::int64_t remove_rows(Layer& layer, const std::vector<BadRow>& bad);

}  // namespace kiln
