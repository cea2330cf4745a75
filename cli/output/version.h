// `kiln --version`: which kiln this is, and what it found to work with.
#pragma once

#include "cli/output/report.h"

namespace kiln::cli {

/// Versions of the program, of the database's schema and of the spaces, and where the compiler, the
/// worker and the databases are; null for what is not there. Opens the compiler.
Json version_json();

}  // namespace kiln::cli
