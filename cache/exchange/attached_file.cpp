#include "cache/exchange/attached_file.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include "cache/layers/schema.h"
#include "cache/rows/proof_text.h"
#include "cache/rows/rows.h"

namespace kiln {
namespace {

/// Names of a table's columns but the id, in order.
std::string columns(SQLite::Database& db, const std::string& table) {
  SQLite::Statement row(db, "SELECT name FROM pragma_table_info(?) WHERE name <> 'id'");
  row.bind(1, table);
  std::string names;
  while (row.executeStep())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.getColumn(0).getString());
  return names;
}

}  // namespace

void copy_database(SQLite::Database& to, const char* name, Layer& from) {
  SQLite::Backup copy(to, name, *from.db, "main");
  if (const int code = copy.executeStep(); code != SQLITE_DONE)
    throw SQLite::Exception(sqlite3_errstr(code), code);
  const std::string found = to.execAndGet(fmt::format("PRAGMA {}.quick_check(1)", name));
  if (found != "ok") throw SQLite::Exception(found, SQLITE_CORRUPT);
}

namespace {

/// A private copy of today's schema of a file that is read as it is.
Layer migrated_copy(Layer& from) {
  auto copy = open_scratch(from.path);
  if (!copy) throw SQLite::Exception(copy.error().message);
  copy_database(*copy->db, "main", from);
  if (const Status done = migrate(*copy->db, from.path.string()); !done)
    throw SQLite::Exception(done.error().message);
  return std::move(*copy);
}

}  // namespace

Attached::Attached(SQLite::Database& db, Layer& from) : db_(db) {
  db_.exec("ATTACH '' AS other");  // a private temporary database
  try {
    if (from.db->execAndGet("PRAGMA user_version").getInt() == schema_version()) {
      copy_database(db_, "other", from);
    } else {
      Layer todays = migrated_copy(from);
      copy_database(db_, "other", todays);
    }
  } catch (...) {
    db_.tryExec("DETACH other");
    throw;
  }
}

Attached::~Attached() { db_.tryExec("DETACH other"); }

void merge_values(SQLite::Database& db) {
  for (const char* table : {"device", "toolchain", "problem", "config"}) {
    const std::string names = columns(db, table);
    // In the order of their keys, so that the same rows get the same ids.
    db.exec(fmt::format("INSERT OR IGNORE INTO {0} ({1}) SELECT {1} FROM other.{0} ORDER BY 1",
                        table, names));
  }
}

std::int64_t merge_code(SQLite::Database& db) {
  const std::string names = columns(db, "source");
  db.exec(fmt::format("INSERT OR IGNORE INTO source ({0}) SELECT {0} FROM other.source", names));
  const int added = db.exec(R"sql(
    INSERT OR IGNORE INTO binary
      (key, code_key, compiler, source_id, hash, bytes, seal, created, quarantined)
    SELECT theirs.key, code_key, compiler, mine.id, theirs.hash, theirs.bytes, seal, created, NULL
    FROM other.binary AS theirs LEFT JOIN other.source ON other.source.id = theirs.source_id
      LEFT JOIN source AS mine ON mine.hash = other.source.hash
    WHERE theirs.quarantined IS NULL)sql");
  db.exec(R"sql(
    INSERT OR IGNORE INTO binary_data (id, data)
    SELECT mine.id, data FROM other.binary_data
      JOIN other.binary AS theirs ON theirs.id = other.binary_data.id
      JOIN binary AS mine ON mine.key = theirs.key AND mine.hash = theirs.hash)sql");
  return added;
}

void merge_envelopes(SQLite::Database& db) {
  db.exec(fmt::format(R"sql(
    INSERT INTO verification (binary_key, problem_key, runtime, created)
    SELECT binary_key, problem_key, runtime, created FROM other.verification
    WHERE problem_key LIKE '{}%'
    ON CONFLICT DO UPDATE SET created = excluded.created WHERE excluded.created < created)sql",
                      kEnvelopePrefix));
}

void merge_peaks(SQLite::Database& db) {
  db.exec(R"sql(
    INSERT INTO peak (device_id, dtype, flops, created)
    SELECT device.id, theirs.dtype, theirs.flops, theirs.created FROM other.peak AS theirs
      JOIN other.device AS d ON d.id = theirs.device_id JOIN device ON device.key = d.key
    WHERE true
    ON CONFLICT (device_id, dtype) DO UPDATE SET flops = excluded.flops, created = excluded.created
    WHERE (excluded.flops, created) > (flops, excluded.created))sql");
}

void merge_limits(SQLite::Database& db) {
  std::string names, theirs, updates, newer, older;
  const MachineLimits any;
  for_each_limit(any, [&](std::string_view name, double) {
    names += fmt::format("{}, ", name);
    theirs += fmt::format("theirs.{}, ", name);
    updates += fmt::format("{0} = excluded.{0}, ", name);
    newer += fmt::format(", excluded.{}", name);
    older += fmt::format(", limits.{}", name);
  });
  db.exec(fmt::format(R"sql(
    INSERT INTO limits (device_id, {0} created)
    SELECT device.id, {1} theirs.created FROM other.limits AS theirs
      JOIN other.device AS d ON d.id = theirs.device_id JOIN device ON device.key = d.key
    WHERE true
    ON CONFLICT (device_id) DO UPDATE SET {2} created = excluded.created
    WHERE (excluded.created{3}) > (limits.created{4}))sql",
                      names, theirs, updates, newer, older));
}

std::string their_rows(std::string_view table) {
  return fmt::format(R"sql(
    FROM other.{} AS theirs
      JOIN other.device AS d ON d.id = theirs.device_id JOIN device ON device.key = d.key
      JOIN other.problem AS p ON p.id = theirs.problem_id JOIN problem ON problem.key = p.key
      JOIN other.toolchain AS t ON t.id = theirs.toolchain_id
      JOIN toolchain ON toolchain.key = t.key)sql",
                     table);
}

}  // namespace kiln
