// Tables of tuned ranges: written, looked up, listed.
#include "cache/store_impl.h"
#include "generator/problem/size.h"

namespace kiln {
namespace {

/// The sound rows of a query for ids.
std::vector<RangeRecord> read_all(Layer& layer, SQLite::Statement& row) {
  std::vector<RangeRecord> found;
  while (row.executeStep()) {
    const std::int64_t id = row.getColumn(0).getInt64();
    auto record = read_range(*layer.db, id);
    if (!record) {
      log::warn("database {}: range row {}: cannot be read back as what kiln writes; skipped",
                layer.path.string(), id);
      continue;
    }
    record->database = layer.path;
    found.push_back(std::move(*record));
  }
  return found;
}

}  // namespace

Status Store::put_range(const BestKey& key, const GemmRange& range, const RangeTable& table) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    put_range_row(db, key, range, table);
    return {};
  });
}

std::vector<RangeRecord> Store::ranges_like(const BestKey& key, Size size) {
  const std::lock_guard lock(impl_->mutex);
  std::vector<RangeRecord> all;
  for (Layer& layer : impl_->layers) {
    auto found = lookup(layer, [&] {
      SQLite::Statement row(*layer.db,
                            "SELECT id FROM range WHERE device_id = (SELECT id FROM device WHERE "
                            "key = ?1) AND rest = ?2 AND size = ?3 AND policy = ?4 AND "
                            "determinism = ?5");
      row.bind(1, key_text(key.device));
      row.bind(2, rest_text(key.gemm, size));
      bind_value(row, 3, to_value(size));
      row.bind(4, key.policy);
      bind_value(row, 5, to_value(key.determinism));
      return read_all(layer, row);
    });
    for (RangeRecord& record : found) all.push_back(std::move(record));
  }
  return all;
}

Result<std::vector<RangeRecord>> Store::list_ranges() {
  const std::lock_guard lock(impl_->mutex);
  std::vector<RangeRecord> all;
  for (Layer& layer : impl_->layers) {
    auto records = guarded(layer.path, [&]() -> Result<std::vector<RangeRecord>> {
      SQLite::Statement row(*layer.db, "SELECT id FROM range ORDER BY id");
      return read_all(layer, row);
    });
    if (!records) return records;
    for (RangeRecord& record : *records) all.push_back(std::move(record));
  }
  return all;
}

}  // namespace kiln
