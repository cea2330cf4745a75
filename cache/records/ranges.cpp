#include "cache/records/ranges.h"

#include <SQLiteCpp/Statement.h>

#include <functional>
#include <string>

#include "cache/keys.h"
#include "cache/layers/layers.h"
#include "cache/rows/range_kernels.h"
#include "cache/rows/range_table.h"
#include "cache/rows/rows.h"
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

constexpr const char* kOfDevice =
    "SELECT id FROM range WHERE device_id = (SELECT id FROM device WHERE key = ?1) AND "
    "policy = ?2 AND determinism = ?3";

/// What a query finds in all layers, the user's own first. `more` follows kOfDevice, `bind` binds
/// it.
std::vector<RangeRecord> ranges_where(Layers& layers, const BestKey& key, const char* more,
                                      const std::function<void(SQLite::Statement&)>& bind) {
  const QuietLock lock(layers.mutex());
  std::vector<RangeRecord> all;
  for (Layer& layer : layers.all()) {
    auto found = lookup(layer, [&] {
      SQLite::Statement row(*layer.db, std::string(kOfDevice) + more);
      row.bind(1, key_text(key.device));
      row.bind(2, key.policy);
      bind_value(row, 3, to_value(key.determinism));
      bind(row);
      return read_all(layer, row);
    });
    for (RangeRecord& record : found) all.push_back(std::move(record));
  }
  return all;
}

}  // namespace

Status Ranges::put(const BestKey& key, const GemmRange& range, const RangeTable& table) {
  return layers_.write([&](SQLite::Database& db) -> Status {
    put_range_row(db, key, range, table);
    keep_range_kernels(db, key, range, table);
    return {};
  });
}

std::vector<RangeRecord> Ranges::of(const BestKey& key) {
  return ranges_where(layers_, key, "", [](SQLite::Statement&) {});
}

std::vector<RangeRecord> Ranges::like(const BestKey& key, Size size) {
  return ranges_where(layers_, key, " AND rest = ?4 AND size = ?5", [&](SQLite::Statement& row) {
    row.bind(4, rest_text(key.gemm, size));
    bind_value(row, 5, to_value(size));
  });
}

Result<std::vector<RangeRecord>> Ranges::list() {
  const QuietLock lock(layers_.mutex());
  std::vector<RangeRecord> all;
  for (Layer& layer : layers_.all()) {
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
