// Changes to a database file, as decay or another program would make them: bytes, pages, lengths,
// logs beside the file, rows and columns of whatever tables it has. Knows SQLite and no column by
// name.
#pragma once

#include <filesystem>
#include <string>

#include "tuner/verify/data.h"

namespace kiln::soak {

/// Changes the file at `path` in one to three drawn ways. Returns what was done, for people.
std::string mutate_file(const std::filesystem::path& path, Random& random);

}  // namespace kiln::soak
