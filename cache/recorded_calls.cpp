#include "cache/recorded_calls.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>

#include "cache/printable.h"
#include "kiln/engine.hpp"

namespace kiln {
namespace {

/// "kilc" in the header of the file.
constexpr int kCallsId = 0x6b696c63;
constexpr int kCallsVersion = 1;
constexpr const char* kCallsSchema = R"sql(
CREATE TABLE calls (
  id INTEGER PRIMARY KEY, device TEXT NOT NULL, problem TEXT NOT NULL, threads INTEGER NOT NULL,
  calls INTEGER NOT NULL, timed_calls INTEGER NOT NULL, timed_ns REAL NOT NULL,
  first TEXT NOT NULL, last TEXT NOT NULL, UNIQUE (device, problem, threads)) STRICT;
)sql";

constexpr const char* kAdd = R"sql(
INSERT INTO calls (device, problem, threads, calls, timed_calls, timed_ns, first, last)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'),
        strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
ON CONFLICT (device, problem, threads) DO UPDATE SET
  calls = calls + excluded.calls, timed_calls = timed_calls + excluded.timed_calls,
  timed_ns = timed_ns + excluded.timed_ns, last = excluded.last;
)sql";

Status calls_error(const std::filesystem::path& file, std::string_view what) {
  return fail(ErrorCode::database, fmt::format("recorded calls {}: {}", file.string(), what));
}

/// Runs `body`, turning what SQLite throws into an Error that names the file.
template <typename F>
auto guarded_calls(const std::filesystem::path& file, F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& e) {
    return tl::unexpected(calls_error(file, printable(e.what())).error());
  }
}

/// Whether the file has its table already. Errors: database (not a calls file, another version).
Result<bool> is_made(SQLite::Database& db, const std::filesystem::path& file) {
  const int application = db.execAndGet("PRAGMA application_id").getInt();
  const int version = db.execAndGet("PRAGMA user_version").getInt();
  const int others = db.execAndGet(
                           "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND "
                           "NOT (type = 'table' AND name = 'calls' AND sql LIKE 'CREATE TABLE %')")
                         .getInt();
  const int tables = db.execAndGet("SELECT count(*) FROM sqlite_schema").getInt();
  if (application == 0 && version == 0 && tables == 0) return false;
  const auto wrong = [&](std::string_view what) {
    return tl::unexpected(calls_error(file, what).error());
  };
  if (application != kCallsId)
    return wrong(fmt::format(
        "application_id = {:#x}: no file of recorded calls; it was left untouched", application));
  if (version != kCallsVersion)
    return wrong(fmt::format("version = {}: this kiln, {}, knows version {}; it was left untouched",
                             version, kiln::version(), kCallsVersion));
  if (others != 0 || tables == 0)
    return wrong("it holds other tables than kiln's; it was left untouched");
  return true;
}

/// An open file, looked at. Errors: as is_made(), bad_input (a directory, a FIFO, …).
Result<SQLite::Database> open_calls(const std::filesystem::path& file, int flags,
                                    std::chrono::milliseconds wait) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored))
    return tl::unexpected(calls_error(file, "not a regular file").error());
  SQLite::Database db(file.string(), flags, static_cast<int>(wait.count()));
  // The file is data, not code.
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  db.exec("PRAGMA cell_size_check = ON; PRAGMA synchronous = NORMAL");
  return db;
}

/// Opens for writing, makes the table where there is none, and runs `body` in the transaction.
template <typename F>
Status write_calls(const std::filesystem::path& file, std::chrono::milliseconds wait, F&& body) {
  return guarded_calls(file, [&]() -> Status {
    auto db = open_calls(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, wait);
    if (!db) return tl::unexpected(db.error());
    SQLite::Transaction transaction(*db, SQLite::TransactionBehavior::IMMEDIATE);
    const auto made = is_made(*db, file);
    if (!made) return tl::unexpected(made.error());
    if (!*made) {
      db->exec(kCallsSchema);
      db->exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kCallsId,
                           kCallsVersion));
    }
    body(*db);
    transaction.commit();
    return {};
  });
}

/// One row. Errors: database (nothing that kiln writes), naming the row.
Result<RecordedCalls> row_of(SQLite::Statement& row, const std::filesystem::path& file) {
  RecordedCalls calls{.device = printable(row.getColumn(1).getString()),
                      .gemm = {},
                      .threads = row.getColumn(3).getInt(),
                      .calls = row.getColumn(4).getInt64(),
                      .timed_calls = row.getColumn(5).getInt64(),
                      .timed_ns = row.getColumn(6).getDouble()};
  const std::string problem = row.getColumn(2).getString();
  const auto wrong = [&](std::string_view what) {
    return tl::unexpected(
        calls_error(file, fmt::format("damaged: row {}: {}", row.getColumn(0).getInt64(), what))
            .error());
  };
  const auto gemm = parse_gemm(problem);
  if (!gemm) return wrong(printable(gemm.error().message));
  calls.gemm = *gemm;
  // Written so that a NaN is wrong.
  if (calls.threads < 1 || calls.calls < 1 || calls.timed_calls < 0 || !(calls.timed_ns >= 0))
    return wrong(fmt::format("threads = {}, calls = {}, timed_calls = {}, timed_ns = {}",
                             calls.threads, calls.calls, calls.timed_calls, calls.timed_ns));
  return calls;
}

}  // namespace

Status prepare_calls(const std::filesystem::path& file) {
  return write_calls(file, kLongWait, [](SQLite::Database&) {});
}

Status add_calls(const std::filesystem::path& file, std::span<const RecordedCalls> calls,
                 std::chrono::milliseconds wait) {
  return write_calls(file, wait, [&](SQLite::Database& db) {
    SQLite::Statement add(db, kAdd);
    for (const RecordedCalls& row : calls) {
      add.bind(1, row.device);
      add.bind(2, text(row.gemm));
      add.bind(3, row.threads);
      add.bind(4, row.calls);
      add.bind(5, row.timed_calls);
      add.bind(6, row.timed_ns);
      add.exec();
      add.reset();
    }
  });
}

Result<std::vector<RecordedCalls>> read_calls(const std::filesystem::path& file,
                                              std::chrono::milliseconds wait) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    return fail(ErrorCode::bad_input,
                fmt::format("recorded calls {}: no such file", file.string()));
  return guarded_calls(file, [&]() -> Result<std::vector<RecordedCalls>> {
    // For writing where it may be: a process that was killed may have left a transaction to undo.
    auto db = open_calls(file, SQLite::OPEN_READWRITE, wait);
    if (!db) return tl::unexpected(db.error());
    SQLite::Transaction look(*db);  // one state of the file for all that follows
    const auto made = is_made(*db, file);
    if (!made) return tl::unexpected(made.error());
    std::vector<RecordedCalls> all;
    if (!*made) return all;
    if (const std::string found = db->execAndGet("PRAGMA quick_check(1)").getString();
        found != "ok")
      return tl::unexpected(calls_error(file, "damaged: " + printable(found)).error());
    SQLite::Statement rows(
        *db, "SELECT id, device, problem, threads, calls, timed_calls, timed_ns FROM calls");
    while (rows.executeStep()) {
      auto row = row_of(rows, file);
      if (!row) return tl::unexpected(row.error());
      all.push_back(std::move(*row));
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &RecordedCalls::total_ns);
    return all;
  });
}

}  // namespace kiln
