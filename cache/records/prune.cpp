#include "cache/records/prune.h"

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include "cache/layers/layers.h"
#include "cache/records/compact.h"
#include "cache/records/maintenance.h"
#include "cache/rows/proof_text.h"
#include "cache/rows/range_kernels.h"
#include "cache/rows/rows.h"

namespace kiln {
namespace {

constexpr const char* kTables[] = {"measurement", "search", "peak",   "limits",  "fit",
                                   "range",       "binary", "source", "problem", "toolchain",
                                   "config",      "device", "session"};

std::map<std::string, std::int64_t> count_rows(SQLite::Database& db) {
  std::map<std::string, std::int64_t> rows;
  for (const char* table : kTables)
    rows[table] = db.execAndGet(fmt::format("SELECT count(*) FROM {}", table)).getInt64();
  return rows;
}

/// The condition under which a row of a table with `device_id` and `created` was chosen.
std::string chosen(SQLite::Database& db, const PruneOptions& options) {
  std::string condition = "true";
  if (options.older_than_days >= 0)
    condition +=
        fmt::format(" AND created < strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-{:.0f} seconds')",
                    options.older_than_days * 86400);
  if (options.device.empty()) return condition;
  std::vector<std::int64_t> ids;
  SQLite::Statement row(db, "SELECT id FROM device");
  while (row.executeStep()) {
    const std::int64_t id = row.getColumn(0).getInt64();
    const auto device = read_device(db, id);
    if (device && fingerprint(*device).find(options.device) != std::string::npos) ids.push_back(id);
  }
  return condition + fmt::format(" AND device_id IN ({})", fmt::join(ids, ", "));
}

void drop_chosen(SQLite::Database& db, const PruneOptions& options) {
  const std::string condition = chosen(db, options);
  if (!options.winners_too) {
    db.exec(fmt::format("DELETE FROM measurement WHERE winner = 0 AND {}", condition));
    return;
  }
  // What is said of a search goes with its winner, so that the next one starts anew.
  db.exec(fmt::format(R"sql(
    DELETE FROM search WHERE EXISTS (SELECT 1 FROM measurement AS m WHERE m.winner = 1 AND
      m.device_id = search.device_id AND m.problem_id = search.problem_id AND
      m.policy = search.policy AND m.determinism = search.determinism AND
      m.toolchain_id = search.toolchain_id AND m.id IN (SELECT id FROM measurement WHERE {})))sql",
                      condition));
  for (const char* table : {"measurement", "fit", "range"})
    db.exec(fmt::format("DELETE FROM {} WHERE {}", table, condition));
  if (options.older_than_days >= 0) return;
  for (const char* table : {"peak", "limits"})
    db.exec(fmt::format("DELETE FROM {} WHERE {}", table, condition));
}

/// Which code drop_unused() may drop.
constexpr const char* kOfDropped =
    "key IN (SELECT binary_key FROM named) AND key NOT IN (SELECT binary_key FROM measurement)";
constexpr const char* kOfNoWinner =
    "key NOT IN (SELECT binary_key FROM measurement WHERE winner = 1)";

/// Removes what nothing refers to any more.
void drop_unused(SQLite::Database& db, const char* code) {
  db.exec(fmt::format(R"sql(
DELETE FROM search WHERE NOT EXISTS (SELECT 1 FROM measurement AS m WHERE
  m.device_id = search.device_id AND m.problem_id = search.problem_id AND
  m.policy = search.policy AND m.determinism = search.determinism AND
  m.toolchain_id = search.toolchain_id);
DELETE FROM binary WHERE {};
DELETE FROM verification WHERE problem_key LIKE '{}%' AND
  binary_key NOT IN (SELECT key FROM binary);
DELETE FROM source WHERE id NOT IN (SELECT source_id FROM binary WHERE source_id IS NOT NULL);
DELETE FROM config WHERE id NOT IN (SELECT config_id FROM measurement);
DELETE FROM problem WHERE id NOT IN (SELECT problem_id FROM measurement);
DELETE FROM toolchain WHERE id NOT IN (SELECT toolchain_id FROM measurement);
DELETE FROM session WHERE id NOT IN (
  SELECT session_id FROM measurement WHERE session_id IS NOT NULL);
DELETE FROM device WHERE id NOT IN (SELECT device_id FROM measurement UNION
  SELECT device_id FROM peak UNION SELECT device_id FROM limits UNION
  SELECT device_id FROM fit UNION SELECT device_id FROM range))sql",
                      code, kEnvelopePrefix));
}

/// A tenth of the losers at a time: failures, then configs that won nowhere, from which fitted
/// models learn nothing, then the others; those furthest behind the fastest of their key first.
/// False when there are none left.
bool drop_slowest(SQLite::Database& db) {
  return db.exec(R"sql(
    DELETE FROM measurement WHERE id IN (
      SELECT id FROM (SELECT id, winner, median_ns / min(median_ns) OVER (
        PARTITION BY device_id, problem_id, policy, determinism, toolchain_id) AS behind,
        config_id IN (SELECT config_id FROM measurement WHERE winner = 1) AS won
      FROM measurement) WHERE winner = 0
      ORDER BY behind IS NOT NULL, won, behind DESC, id
      LIMIT (SELECT 1 + count(*) / 10 FROM measurement WHERE winner = 0)))sql") > 0;
}

bool shrink_to(SQLite::Database& db, std::int64_t most) {
  if (used_bytes(db) > most) drop_unused(db, kOfNoWinner);
  while (used_bytes(db) > most && drop_slowest(db)) drop_unused(db, kOfNoWinner);
  return used_bytes(db) <= most;
}

Status prunable(const PruneOptions& options) {
  if (options.older_than_days >= 0 || !options.device.empty() || options.most_bytes > 0) return {};
  return fail(ErrorCode::bad_input, "prune: give an age, a device or a size");
}

}  // namespace

Result<PruneReport> Maintenance::prune(const PruneOptions& options) {
  if (Status ok = prunable(options); !ok) return tl::unexpected(ok.error());
  const QuietLock lock(layers_.mutex());
  if (Status ok = layers_.writable(); !ok) return tl::unexpected(ok.error());
  Layer& own = layers_.own();
  PruneReport report;
  const Status done = guarded(own.path, [&]() -> Status {
    SQLite::Database& db = *own.db;
    // What lies in the log counts too.
    if (!options.dry_run) db.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)");
    report.bytes_before = file_bytes(own);
    SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
    const auto before = count_rows(db);
    const std::string winners_query =
        fmt::format("SELECT count(*) FROM measurement WHERE winner = 1 AND {}", kOfSingleSizes);
    const std::int64_t winners = db.execAndGet(winners_query.c_str()).getInt64();
    db.exec(
        "DROP TABLE IF EXISTS temp.named;"
        "CREATE TEMP TABLE named AS SELECT DISTINCT binary_key FROM measurement");
    if (options.older_than_days >= 0 || !options.device.empty()) drop_chosen(db, options);
    drop_unused(db, kOfDropped);
    if (options.most_bytes > 0) report.small_enough = shrink_to(db, options.most_bytes);
    for (const auto& [table, rows] : count_rows(db))
      if (before.at(table) != rows) report.dropped[table] = before.at(table) - rows;
    report.winners = winners - db.execAndGet(winners_query.c_str()).getInt64();
    report.bytes_after = used_bytes(db);
    if (options.dry_run || !report.small_enough) return {};
    transaction.commit();
    db.exec("VACUUM");
    db.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)");
    report.bytes_after = file_bytes(own);
    return {};
  });
  if (!done) return tl::unexpected(done.error());
  if (Status kept = unmoved(own); !kept) return tl::unexpected(kept.error());
  return report;
}

}  // namespace kiln
