#include "cache/records/binaries.h"

#include <SQLiteCpp/Statement.h>

#include <vector>

#include "cache/layers/layers.h"
#include "cache/rows/rows.h"
#include "runtime/log.h"

namespace kiln {

std::optional<StoredBinary> code_of(Layers& layers, Layer& layer, std::int64_t binary_id) {
  if (layers.is_bad(layer, "binary", binary_id)) return std::nullopt;
  auto binary = read_binary(*layer.db, binary_id);
  if (!binary) {
    layers.quarantine(layer, "binary", binary_id, "its bytes, source or seal do not match");
    return std::nullopt;
  }
  if (!layer.trusted) binary->image.clear();
  return binary;
}

std::optional<StoredBinary> Binaries::of_source(const std::string& code_key,
                                                const std::string& compiler) {
  const QuietLock lock(layers_.mutex());
  for (Layer& layer : layers_.all()) {
    if (!layer.trusted) continue;
    auto found = lookup(layer, [&]() -> std::optional<StoredBinary> {
      SQLite::Statement row(*layer.db,
                            "SELECT id FROM binary WHERE code_key = ?1 AND quarantined IS NULL "
                            "AND (?2 = '' OR compiler = ?2) ORDER BY id DESC");
      row.bind(1, code_key);
      row.bind(2, compiler);
      std::vector<std::int64_t> ids;
      while (row.executeStep()) ids.push_back(row.getColumn(0).getInt64());
      for (const std::int64_t id : ids)
        if (auto binary = code_of(layers_, layer, id)) return binary;
      return std::nullopt;
    });
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<StoredBinary> Binaries::by_key(const std::string& binary_key) {
  const QuietLock lock(layers_.mutex());
  for (Layer& layer : layers_.all()) {
    if (!layer.trusted) continue;
    auto found = lookup(layer, [&]() -> std::optional<StoredBinary> {
      SQLite::Statement row(*layer.db,
                            "SELECT id FROM binary WHERE key = ? AND quarantined IS NULL");
      row.bind(1, binary_key);
      if (!row.executeStep()) return std::nullopt;
      const std::int64_t id = row.getColumn(0).getInt64();
      row.reset();
      return code_of(layers_, layer, id);
    });
    if (found) return found;
  }
  return std::nullopt;
}

Status Binaries::put(const StoredBinary& binary) {
  return layers_.write([&](SQLite::Database& db) -> Status {
    put_binary_row(db, binary);
    return {};
  });
}

void Binaries::quarantine(const std::string& key, const std::string& reason) {
  const QuietLock lock(layers_.mutex());
  for (Layer& layer : layers_.all()) {
    const auto marked = guarded(layer.path, [&]() -> Status {
      SQLite::Statement find(*layer.db, "SELECT id FROM binary WHERE key = ?");
      find.bind(1, key);
      if (!find.executeStep()) return {};
      const std::int64_t id = find.getColumn(0).getInt64();
      find.reset();
      layers_.quarantine(layer, "binary", id, reason);
      if (!layer.writable) return {};
      // Compiled again it has the same key: what was proved of it counts no more.
      SQLite::Statement proofs(*layer.db, "DELETE FROM verification WHERE binary_key = ?");
      proofs.bind(1, key);
      proofs.exec();
      return {};
    });
    if (!marked) log::warn("{}", marked.error().message);
  }
}

}  // namespace kiln
