#include "cache/rows/range_kernels.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cache/keys.h"
#include "cache/rows/range_table.h"
#include "cache/rows/rows.h"
#include "cache/rows/seal.h"
#include "generator/problem/size.h"
#include "generator/space/launch_text.h"

namespace kiln {
namespace {

/// Which rows may be copied.
enum class Sources { verified, winners };

void remove_kernels(SQLite::Database& db, const BestKey& key, const GemmRange& range) {
  SQLite::Statement row(db, R"sql(
    SELECT id, problem_id, binary_key FROM measurement WHERE
      device_id = (SELECT id FROM device WHERE key = ?1) AND policy = ?2 AND determinism = ?3)sql");
  row.bind(1, key_text(key.device));
  row.bind(2, range_policy(key.policy, range));
  bind_value(row, 3, to_value(key.determinism));
  const std::string rest = rest_text(range.gemm, range.size);
  std::vector<std::int64_t> ids;
  std::set<std::string> code;
  while (row.executeStep()) {
    const auto gemm = read_problem(db, row.getColumn(1).getInt64());
    if (!gemm || rest_text(*gemm, range.size) != rest) continue;
    ids.push_back(row.getColumn(0).getInt64());
    code.insert(row.getColumn(2).getString());
  }
  row.reset();
  for (const std::int64_t id : ids) {
    SQLite::Statement drop(db, "DELETE FROM measurement WHERE id = ?");
    drop.bind(1, id);
    drop.exec();
  }
  for (const std::string& binary : code) drop_unused_code(db, binary);
}

std::optional<std::int64_t> source_row_of(SQLite::Database& db, const BestKey& key,
                                          const Config& config, Sources sources) {
  SQLite::Statement row(db, R"sql(
    SELECT id, winner FROM measurement WHERE
      device_id = (SELECT id FROM device WHERE key = ?1) AND
      problem_id = (SELECT id FROM problem WHERE key = ?2) AND policy = ?3 AND determinism = ?4 AND
      config_id = (SELECT id FROM config WHERE text = ?5) AND verified = 1 AND failure IS NULL AND
      quarantined IS NULL AND binary_key IN (SELECT key FROM binary)
    ORDER BY winner DESC, id DESC)sql");
  row.bind(1, key_text(key.device));
  row.bind(2, key_text(key.gemm));
  row.bind(3, key.policy);
  bind_value(row, 4, to_value(key.determinism));
  row.bind(5, text(config));
  while (row.executeStep()) {
    const std::int64_t id = row.getColumn(0).getInt64();
    const bool winner = row.getColumn(1).getInt() == 1;
    if (winner ? measurement_sealed(db, id) : sources == Sources::verified) return id;
  }
  return std::nullopt;
}

void keep(SQLite::Database& db, const BestKey& key, const GemmRange& range, const RangeCell& cell,
          Sources sources) {
  BestKey at = key;
  at.gemm = normalised(range.at(cell.tuned_at));
  const auto problem = Problem::of(at.gemm);
  if (!problem) return;  // a file may say any size
  const auto source = source_row_of(db, at, cell.config, sources);
  if (!source) return;
  SQLite::Statement copy(db, R"sql(
    INSERT OR REPLACE INTO measurement (device_id, problem_id, policy, determinism, toolchain_id,
      config_id, session_id, predicted_ns, round, verified, median_ns, low_ns, high_ns, samples,
      binary_key, launch, winner, created)
    SELECT device_id, problem_id, ?2, determinism, toolchain_id, config_id, session_id,
      predicted_ns, round, verified, median_ns, low_ns, high_ns, samples, binary_key,
      CASE WHEN winner = 1 THEN launch ELSE ?3 END, 1, created
    FROM measurement WHERE id = ?1 RETURNING id)sql");
  copy.bind(1, *source);
  copy.bind(2, range_policy(key.policy, range));
  copy.bind(3, sources == Sources::verified ? launch_text(*problem, at.device, cell.config) : "");
  copy.executeStep();
  const std::int64_t kept = copy.getColumn(0).getInt64();
  copy.reset();
  seal_measurement(db, kept);
}

void keep_all(SQLite::Database& db, const BestKey& key, const GemmRange& range,
              const RangeTable& table, Sources sources) {
  remove_kernels(db, key, range);
  std::set<std::pair<std::int64_t, Config>> seen;
  for (const RangeCell& cell : table.cells)
    if (seen.emplace(cell.tuned_at, cell.config).second) keep(db, key, range, cell, sources);
}

}  // namespace

std::string range_policy(std::string_view policy, const GemmRange& range) {
  return fmt::format("{} {}={}..{}", policy, name(range.size), range.first, range.last());
}

void keep_range_kernels(SQLite::Database& db, const BestKey& key, const GemmRange& range,
                        const RangeTable& table) {
  keep_all(db, key, range, table, Sources::verified);
}

void keep_range_kernels(SQLite::Database& db) {
  std::vector<std::int64_t> ids;
  SQLite::Statement row(db, "SELECT id FROM range");
  while (row.executeStep()) ids.push_back(row.getColumn(0).getInt64());
  for (const std::int64_t id : ids)
    if (const auto record = read_range(db, id))
      keep_all(db, record->key, record->range, record->table, Sources::winners);
}

}  // namespace kiln
