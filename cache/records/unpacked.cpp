#include "cache/records/unpacked.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <algorithm>

#include "cache/codec/codec.h"

namespace kiln {
namespace {

/// Sizes that decompress() refuses cost nothing.
constexpr const char* kPackedRows = R"sql(
SELECT * FROM (
  SELECT 'source', id, bytes, length(data) AS stored FROM source UNION ALL
  SELECT 'binary', id, bytes, length(data) FROM binary JOIN binary_data USING (id) UNION ALL
  SELECT 'fit', id, bytes, length(data) FROM fit UNION ALL
  SELECT 'range', id, bytes, length(data) FROM range)
WHERE bytes BETWEEN 1 AND ? AND stored > 0)sql";

std::vector<PackedRow> packed_rows(SQLite::Database& db) {
  SQLite::Statement row(db, kPackedRows);
  row.bind(1, kMaxBlobBytes);
  std::vector<PackedRow> rows;
  while (row.executeStep())
    rows.push_back({row.getColumn(0).getString(), row.getColumn(1).getInt64(),
                    row.getColumn(2).getInt64(), row.getColumn(3).getInt64()});
  return rows;
}

double growth(const PackedRow& row) {
  return static_cast<double>(row.bytes) / static_cast<double>(row.stored);
}

}  // namespace

std::vector<PackedRow> rows_beyond_limit(SQLite::Database& db) {
  std::vector<PackedRow> rows = packed_rows(db), beyond;
  std::int64_t bytes = 0, stored = 0;  // 2^26 a row at most: no file has rows enough to overflow
  for (const PackedRow& row : rows) {
    bytes += row.bytes;
    stored += row.stored;
  }
  std::ranges::stable_sort(rows, {}, growth);
  for (; bytes > most_unpacked(stored) && !rows.empty(); rows.pop_back()) {
    bytes -= rows.back().bytes;
    stored -= rows.back().stored;
    beyond.push_back(rows.back());
  }
  return beyond;
}

Status unpackable(SQLite::Database& db, const std::filesystem::path& file) {
  const std::vector<PackedRow> beyond = rows_beyond_limit(db);
  if (beyond.empty()) return {};
  return fail(ErrorCode::database,
              fmt::format("database {}: {} row {} says that its {} bytes unpack to {}, and {} more "
                          "rows are like it: more than kiln unpacks; kiln db check --repair "
                          "removes them",
                          file.string(), beyond.front().table, beyond.front().id,
                          beyond.front().stored, beyond.front().bytes, beyond.size() - 1));
}

}  // namespace kiln
