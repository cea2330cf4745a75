// The terminal that standard output is, if it is one.
#pragma once

#include <cstddef>
#include <optional>

namespace kiln::cli {

/// Columns of a line: $COLUMNS, else the terminal's; nothing where output goes to a file or a pipe.
std::optional<std::size_t> terminal_columns();

}  // namespace kiln::cli
