// Rows of tuned ranges.
#include "cache/codec/codec.h"
#include "cache/rows/range_table.h"
#include "cache/rows/rows.h"
#include "generator/problem/size.h"

namespace kiln {

std::string rest_text(const Gemm& gemm, Size size) {
  return key_text(without_size(normalised(gemm), size));
}

void put_range_row(SQLite::Database& db, const BestKey& key, const GemmRange& range,
                   const RangeTable& table) {
  const std::string text = table.text();
  const auto data = compress(as_blob(text), Content::other);
  SQLite::Statement row(db, R"sql(
    INSERT OR REPLACE INTO range (device_id, shape, rest, size, first, last, policy, determinism,
      hash, bytes, data, created)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')))sql");
  row.bind(1, device_row(db, key.device));
  row.bind(2, kiln::text(range));
  row.bind(3, rest_text(range.gemm, range.size));
  bind_value(row, 4, to_value(range.size));
  row.bind(5, range.first);
  row.bind(6, range.last());
  row.bind(7, key.policy);
  bind_value(row, 8, to_value(key.determinism));
  row.bind(9, content_hash(text));
  row.bind(10, static_cast<std::int64_t>(text.size()));
  row.bindNoCopy(11, data.data(), static_cast<int>(data.size()));
  row.exec();
}

std::optional<RangeRecord> read_range(SQLite::Database& db, std::int64_t id) {
  SQLite::Statement row(db, R"sql(
    SELECT device_id, shape, rest, size, first, last, policy, determinism, hash, bytes, data, created
    FROM range WHERE id = ?)sql");
  row.bind(1, id);
  if (!row.executeStep()) return std::nullopt;
  const auto device = read_device(db, row.getColumn(0).getInt64());
  const auto range = parse_gemm_range(row.getColumn(1).getString());
  Size size{};
  Determinism determinism{};
  if (!device || !range || !from_value(row.getColumn(3).getString(), size) ||
      !from_value(row.getColumn(7).getString(), determinism))
    return std::nullopt;
  if (range->size != size || range->first != row.getColumn(4).getInt64() ||
      range->last() != row.getColumn(5).getInt64() ||
      row.getColumn(2).getString() != rest_text(range->gemm, size))
    return std::nullopt;
  const auto text = decompress(blob(row.getColumn(10)), row.getColumn(9).getInt64(), kMaxTextBytes);
  if (!text || content_hash(*text) != row.getColumn(8).getString()) return std::nullopt;
  auto table = RangeTable::parse(as_text(*text), *range);
  if (!table) return std::nullopt;
  return RangeRecord{.key = {.device = *device,
                             .gemm = range->gemm,
                             .policy = text_of(row.getColumn(6)),
                             .determinism = determinism},
                     .range = *range,
                     .table = std::move(*table),
                     .created = text_of(row.getColumn(11))};
}

}  // namespace kiln
