// Changes to rows, columns and schema of a database, whatever its tables are.
#pragma once

#include <filesystem>
#include <string>

#include "tuner/verify/data.h"

namespace kiln::soak {

/// Makes one drawn change through SQLite, constraints off. Returns what was done, for people; a
/// file that SQLite does not read is left as it is.
std::string change_rows(const std::filesystem::path& path, Random& random);

}  // namespace kiln::soak
