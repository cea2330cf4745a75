// A file at the default path that is not kiln's database, or a cut one, makes way for a new one. It
// is renamed, never deleted. Knows names and files; nothing of SQLite.
#pragma once

#include <filesystem>
#include <string>

#include "cache/layers/trust.h"
#include "kiln/error.hpp"

namespace kiln {

/// Today as "2026-11-29" (UTC).
std::string today();

/// Renames `file`, and the logs beside it, to the first free one of FILE.damaged-DATE,
/// FILE.damaged-DATE-2, …, and returns that name; a link is renamed, what it names stays. Empty,
/// and nothing is renamed, where `file` is not `id` any more: another process was first. Errors:
/// database, naming what could not be renamed.
Result<std::filesystem::path> move_aside(const std::filesystem::path& file, const FileId& id,
                                         const std::string& date);

}  // namespace kiln
