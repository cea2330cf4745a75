// The same rows in fewer bytes.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>

#include "cache/layers/layer.h"
#include "cache/records/maintenance.h"

namespace kiln {

/// Compresses code and sources with today's dictionaries at Level::small, on all cores. Frames that
/// are no larger as they are stay, and so do those that cannot be read, which check() reports. What
/// the file no longer needs is free pages. Of a file that is unpackable(). Throws what SQLite
/// throws.
CompactReport compress_again(SQLite::Database& db);

/// What the file takes when it has been made anew: whole pages of each table and index.
std::int64_t used_bytes(SQLite::Database& db);
/// Of the layer's file, or of a database in memory.
std::int64_t file_bytes(const Layer& layer);

}  // namespace kiln
