// How much the compressed rows of a file unpack to. Frames of zeros are a 16,000th of what they
// hold, so a small file could keep whoever unpacks all of it busy for hours. Shipped files unpack
// to 7 to 13 times their frames, sources alone to 43 times. Throws what SQLite throws.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kiln/error.hpp"

namespace kiln {

/// A row whose frame is unpacked: of `source`, `binary` (by its id in binary_data), `fit` or
/// `range`.
struct PackedRow {
  std::string table;
  std::int64_t id = 0;
  std::int64_t bytes = 0;   // that the row says it unpacks to
  std::int64_t stored = 0;  // of its frame
};

/// What all frames of a file that take `stored` bytes may unpack to.
constexpr std::int64_t most_unpacked(std::int64_t stored) { return (64 << 20) + 200 * stored; }

/// The rows without which the file unpacks to no more than most_unpacked(), those that are the most
/// times as large as their frames; none, as a rule.
std::vector<PackedRow> rows_beyond_limit(SQLite::Database& db);

/// Errors: database, naming the file, where it unpacks to more than most_unpacked().
Status unpackable(SQLite::Database& db, const std::filesystem::path& file);

}  // namespace kiln
