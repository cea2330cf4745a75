#include "cache/records/fits.h"

#include <SQLiteCpp/Statement.h>

#include "cache/codec/codec.h"
#include "cache/layers/layers.h"
#include "cache/rows/queries.h"
#include "cache/rows/rows.h"

namespace kiln {

std::optional<FittedModel> Fits::of(const BestKey& key) {
  const QuietLock lock(layers_.mutex());
  const auto of_layer = [&](Layer& layer) -> std::optional<FittedModel> {
    SQLite::Statement row(*layer.db,
                          "SELECT id FROM fit WHERE device_id = "
                          "(SELECT id FROM device WHERE key = ?1) AND class = ?2 AND "
                          "policy = ?3 AND determinism = ?4");
    bind_class_key(row, key);
    return row.executeStep() ? read_fit(*layer.db, row.getColumn(0).getInt64()) : std::nullopt;
  };
  for (Layer& layer : layers_.all())
    if (auto model = lookup(layer, [&] { return of_layer(layer); })) return model;
  return std::nullopt;
}

Status Fits::put(const BestKey& key, const FittedModel& model) {
  return layers_.write([&](SQLite::Database& db) -> Status {
    (void)device_row(db, key.device);
    SQLite::Statement row(db, R"sql(
      INSERT OR REPLACE INTO fit (device_id, class, policy, determinism, hash, bytes, data, created)
      VALUES ((SELECT id FROM device WHERE key = ?1), ?2, ?3, ?4, ?5, ?6, ?7,
        strftime('%Y-%m-%dT%H:%M:%SZ', 'now')))sql");
    bind_class_key(row, key);
    const std::string text = model.text();
    const auto data = compress(as_blob(text), Content::other);
    row.bind(5, content_hash(text));
    row.bind(6, static_cast<std::int64_t>(text.size()));
    row.bindNoCopy(7, data.data(), static_cast<int>(data.size()));
    row.exec();
    return {};
  });
}

}  // namespace kiln
