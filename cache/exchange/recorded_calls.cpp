#include "cache/exchange/recorded_calls.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <memory>

#include "cache/layers/file_schema.h"
#include "cache/printable.h"
#include "kiln/engine.hpp"

namespace kiln {
namespace {

/// "kilc" in the header of the file.
constexpr int kCallsId = 0x6b696c63;
constexpr int kCallsVersion = 1;
constexpr const char* kCallsTable = R"sql(CREATE TABLE calls (
  id INTEGER PRIMARY KEY, device TEXT NOT NULL, problem TEXT NOT NULL, threads INTEGER NOT NULL,
  calls INTEGER NOT NULL, timed_calls INTEGER NOT NULL, timed_ns REAL NOT NULL,
  first TEXT NOT NULL, last TEXT NOT NULL, UNIQUE (device, problem, threads)) STRICT)sql";
constexpr SchemaObject kCallsSchema[] = {{"index", "sqlite_autoindex_calls_1", "calls", ""},
                                         {"table", "calls", "calls", kCallsTable}};

constexpr const char* kAdd = R"sql(
INSERT INTO calls (device, problem, threads, calls, timed_calls, timed_ns, first, last)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'),
        strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
ON CONFLICT (device, problem, threads) DO UPDATE SET
  calls = min(calls, ?7 - excluded.calls) + excluded.calls,
  timed_calls = min(timed_calls, ?7 - excluded.timed_calls) + excluded.timed_calls,
  timed_ns = min(timed_ns + excluded.timed_ns, ?8), last = excluded.last;
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
  const FileSchema schema = FileSchema::of(db);
  if (application == 0 && version == 0 && schema.objects().empty()) return false;
  const auto wrong = [&](std::string_view what) {
    return tl::unexpected(calls_error(file, what).error());
  };
  if (application != kCallsId)
    return wrong(fmt::format(
        "application_id = {:#x}: no file of recorded calls; it was left untouched", application));
  if (version != kCallsVersion)
    return wrong(fmt::format("version = {}: this kiln, {}, knows version {}; it was left untouched",
                             version, kiln::version(), kCallsVersion));
  if (const std::string other = first_difference(schema.objects(), kCallsSchema); !other.empty())
    return wrong(
        fmt::format("it holds other tables than kiln's: {}; it was left untouched", other));
  return true;
}

/// Instructions of SQLite's machine that a file may cost: checking, reading and adding take fewer
/// than one for each of its bytes, and those of a new row a few hundred.
std::int64_t allowed_work(const std::filesystem::path& file) {
  std::error_code ignored;
  const std::uintmax_t bytes = std::filesystem::file_size(file, ignored);
  constexpr std::int64_t kOfAnyFile = 200'000'000;
  if (ignored) return kOfAnyFile;
  return kOfAnyFile + 10 * static_cast<std::int64_t>(std::min<std::uintmax_t>(bytes, 1ull << 40));
}

/// An open file, looked at, and how much work it may still cost. Errors: as is_made(), bad_input (a
/// directory, a FIFO, …).
struct OpenCalls {
  std::unique_ptr<std::int64_t> work;
  SQLite::Database db;
};

Result<OpenCalls> open_calls(const std::filesystem::path& file, int flags,
                             std::chrono::milliseconds wait) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored))
    return tl::unexpected(calls_error(file, "not a regular file").error());
  OpenCalls open{std::make_unique<std::int64_t>(allowed_work(file)),
                 SQLite::Database(file.string(), flags, static_cast<int>(wait.count()))};
  SQLite::Database& db = open.db;
  bound_work(db, *open.work);
  // The file is data, not code.
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  db.exec("PRAGMA cell_size_check = ON; PRAGMA synchronous = NORMAL");
  return open;
}

/// Opens for writing, makes the table where there is none, and runs `body` in the transaction.
template <typename F>
Status write_calls(const std::filesystem::path& file, std::chrono::milliseconds wait, F&& body) {
  return guarded_calls(file, [&]() -> Status {
    auto open = open_calls(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, wait);
    if (!open) return tl::unexpected(open.error());
    SQLite::Database* const db = &open->db;
    SQLite::Transaction transaction(*db, SQLite::TransactionBehavior::IMMEDIATE);
    const auto made = is_made(*db, file);
    if (!made) return tl::unexpected(made.error());
    if (!*made) {
      db->exec(kCallsTable);
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
  RecordedCalls calls{.device = printable_line(row.getColumn(1).getString()),
                      .gemm = {},
                      .calls = row.getColumn(4).getInt64(),
                      .timed_calls = row.getColumn(5).getInt64(),
                      .timed_ns = row.getColumn(6).getDouble()};
  const std::int64_t threads = row.getColumn(3).getInt64();
  const std::string problem = row.getColumn(2).getString();
  const auto wrong = [&](std::string_view what) {
    return tl::unexpected(
        calls_error(file, fmt::format("damaged: row {}: {}", row.getColumn(0).getInt64(), what))
            .error());
  };
  const auto gemm = parse_gemm(problem);
  if (!gemm) return wrong(printable_line(gemm.error().message));
  calls.gemm = *gemm;
  // Written so that a NaN is wrong.
  const bool counted = calls.calls >= 1 && calls.calls <= kMostCalls && calls.timed_calls >= 0 &&
                       calls.timed_calls <= kMostCalls;
  const bool timed = calls.timed_ns >= 0 && calls.timed_ns <= kMostCallNs;
  if (threads < 1 || threads > kMostCallThreads || !counted || !timed)
    return wrong(fmt::format("threads = {}, calls = {}, timed_calls = {}, timed_ns = {}", threads,
                             calls.calls, calls.timed_calls, calls.timed_ns));
  calls.threads = static_cast<int>(threads);
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
      add.bind(4, std::min(row.calls, kMostCalls));
      add.bind(5, std::min(row.timed_calls, kMostCalls));
      add.bind(6, std::min(row.timed_ns, kMostCallNs));
      add.bind(7, kMostCalls);
      add.bind(8, kMostCallNs);
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
    auto open = open_calls(file, SQLite::OPEN_READWRITE, wait);
    if (!open) return tl::unexpected(open.error());
    SQLite::Database* const db = &open->db;
    SQLite::Transaction look(*db);  // one state of the file for all that follows
    const auto made = is_made(*db, file);
    if (!made) return tl::unexpected(made.error());
    std::vector<RecordedCalls> all;
    if (!*made) return all;
    if (const std::string found = db->execAndGet("PRAGMA quick_check(1)").getString();
        found != "ok")
      return tl::unexpected(
          calls_error(file, fmt::format("damaged: {}", printable(found))).error());
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
