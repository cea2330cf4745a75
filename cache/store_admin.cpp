// What the files hold, in lists, numbers and checks.
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include "cache/range_kernels.h"
#include "cache/schema.h"
#include "cache/seal.h"
#include "cache/store_impl.h"

namespace kiln {
namespace {

std::int64_t number(Layer& layer, const char* query) {
  return layer.db->execAndGet(query).getInt64();
}

StoreStats stats_of(Layer& layer) {
  StoreStats s{.database = layer.path,
               .writable = layer.writable,
               .trusted = layer.trusted,
               .journal = layer.db->execAndGet("PRAGMA journal_mode").getString(),
               .schema = layer.db->execAndGet("PRAGMA user_version").getInt()};
  std::error_code none;
  const auto bytes = std::filesystem::file_size(layer.path, none);
  s.file_bytes = none ? 0 : static_cast<std::int64_t>(bytes);
  s.devices = number(layer, "SELECT count(*) FROM device");
  s.problems = number(layer, "SELECT count(*) FROM problem");
  s.winners = number(
      layer, fmt::format("SELECT count(*) FROM measurement WHERE winner = 1 AND {}", kOfSingleSizes)
                 .c_str());
  s.ranges = number(layer, "SELECT count(*) FROM range");
  s.measurements = number(layer, "SELECT count(*) FROM measurement");
  s.failures = number(layer, "SELECT count(*) FROM measurement WHERE failure IS NOT NULL");
  s.binaries = number(layer, "SELECT count(*) FROM binary");
  s.binary_bytes = number(layer, "SELECT coalesce(sum(length(data)), 0) FROM binary_data");
  s.quarantined =
      number(layer,
             "SELECT (SELECT count(*) FROM measurement WHERE quarantined IS NOT NULL) + "
             "(SELECT count(*) FROM binary WHERE quarantined IS NOT NULL)");
  SQLite::Statement kinds(*layer.db,
                          "SELECT failure, count(*) FROM measurement WHERE failure IS NOT NULL "
                          "GROUP BY failure");
  while (kinds.executeStep())
    s.failures_by_kind[text_of(kinds.getColumn(0))] = kinds.getColumn(1).getInt64();
  return s;
}

/// A row that should not be there, and the statement that removes it.
struct BadRow {
  std::string table;
  std::int64_t id = 0;
};

/// Looks at every row of one file with the same readers that lookups use.
class Checker {
 public:
  Checker(Layer& layer, CheckReport& report) : layer_(layer), report_(report) {}

  void run() {
    pragma("PRAGMA integrity_check", 0, "ok");
    // Columns: table, rowid, parent, number of the key.
    pragma("PRAGMA foreign_key_check", 0, "");
    each("device", [&](std::int64_t id) { return read_device(*layer_.db, id).has_value(); });
    each("problem", [&](std::int64_t id) { return read_problem(*layer_.db, id).has_value(); });
    each("toolchain", [&](std::int64_t id) { return read_toolchain(*layer_.db, id).has_value(); });
    each("search", [&](std::int64_t id) { return read_search(*layer_.db, id).has_value(); });
    each("peak", [&](std::int64_t id) { return read_peak(*layer_.db, id).has_value(); });
    each("fit", [&](std::int64_t id) { return read_fit(*layer_.db, id).has_value(); });
    each("range", [&](std::int64_t id) { return read_range(*layer_.db, id).has_value(); });
    each("binary", [&](std::int64_t id) { return read_binary(*layer_.db, id).has_value(); });
    measurements();
    for (const char* table : {"measurement", "binary"}) quarantined(table);
  }
  const std::vector<BadRow>& bad() const { return bad_; }

 private:
  void pragma(const char* query, int column, std::string_view good) {
    SQLite::Statement row(*layer_.db, query);
    while (row.executeStep()) {
      const std::string text = text_of(row.getColumn(column));
      if (text != good)
        report_.problems.push_back(
            fmt::format("database {}: {}: {}", layer_.path.string(), query, text));
    }
  }

  std::vector<std::int64_t> ids(const std::string& query) {
    SQLite::Statement row(*layer_.db, query);
    std::vector<std::int64_t> all;
    while (row.executeStep()) all.push_back(row.getColumn(0).getInt64());
    return all;
  }

  template <typename F>
  void each(const std::string& table, F&& good) {
    for (const std::int64_t id : ids(fmt::format("SELECT id FROM {}", table))) {
      ++report_.rows;
      if (!good(id)) found(table, id, "cannot be read back as what kiln writes");
    }
  }

  void measurements() {
    SQLite::Statement row(*layer_.db,
                          fmt::format("SELECT {}, measurement.id, measurement.winner FROM {}",
                                      kMeasuredColumns, kMeasurementJoin));
    const int winner_column = row.getColumnCount() - 1;
    while (row.executeStep()) {
      ++report_.rows;
      const std::int64_t id = row.getColumn(winner_column - 1).getInt64();
      const std::string config = text_of(row.getColumn(0));
      if (!read_measured(row))
        found("measurement", id,
              fmt::format("config = {}: it, its round or its timing cannot be read", config));
      else if (row.getColumn(winner_column).getInt() == 1 && !measurement_sealed(*layer_.db, id))
        found("measurement", id,
              fmt::format("config = {}: its seal is not that of its key, launch and code", config));
    }
  }

  void quarantined(const std::string& table) {
    SQLite::Statement row(
        *layer_.db,
        fmt::format("SELECT id, quarantined FROM {} WHERE quarantined IS NOT NULL", table));
    while (row.executeStep())
      found(table, row.getColumn(0).getInt64(),
            fmt::format("quarantined: {}", text_of(row.getColumn(1))));
  }

  void found(const std::string& table, std::int64_t id, const std::string& what) {
    report_.problems.push_back(
        fmt::format("database {}: {} row {}: {}", layer_.path.string(), table, id, what));
    bad_.push_back({table, id});
  }

  Layer& layer_;
  CheckReport& report_;
  std::vector<BadRow> bad_;
};

/// Rows that refer to a bad device, problem or toolchain go with it; code that nothing but its key
/// refers to is compiled again when asked for.
std::int64_t repair(Layer& layer, const std::vector<BadRow>& bad) {
  SQLite::Transaction transaction(*layer.db, SQLite::TransactionBehavior::IMMEDIATE);
  std::int64_t removed = 0;
  const auto drop = [&](const std::string& condition, const std::string& table, std::int64_t id) {
    SQLite::Statement row(*layer.db, fmt::format("DELETE FROM {} WHERE {} = ?", table, condition));
    row.bind(1, id);
    removed += row.exec();
  };
  for (const BadRow& row : bad) {
    if (row.table == "device" || row.table == "problem" || row.table == "toolchain")
      for (const char* of_key : {"measurement", "search"}) drop(row.table + "_id", of_key, row.id);
    if (row.table == "device")
      for (const char* of_device : {"peak", "fit", "range"}) drop("device_id", of_device, row.id);
    drop("id", row.table, row.id);
  }
  transaction.commit();
  layer.db->exec("REINDEX");
  return removed;
}

std::vector<Record> list_of(Layer& layer, const char* which) {
  std::vector<Record> records;
  SQLite::Statement row(
      *layer.db, fmt::format("SELECT {}, measurement.device_id, measurement.problem_id, "
                             "measurement.toolchain_id, measurement.policy, "
                             "measurement.determinism, measurement.created, "
                             "measurement.launch, measurement.id FROM {} "
                             "WHERE measurement.winner = 1 AND measurement.quarantined IS NULL "
                             "AND {} ORDER BY measurement.id",
                             kMeasuredColumns, kMeasurementJoin, which));
  constexpr int kNext = 11;
  while (row.executeStep()) {
    auto measured = read_measured(row);
    auto device = read_device(*layer.db, row.getColumn(kNext).getInt64());
    auto gemm = read_problem(*layer.db, row.getColumn(kNext + 1).getInt64());
    auto made_by = read_toolchain(*layer.db, row.getColumn(kNext + 2).getInt64());
    Determinism determinism{};
    if (!measured || !device || !gemm || !made_by ||
        !from_value(row.getColumn(kNext + 4).getString(), determinism))
      continue;  // check() is what reports it
    records.push_back({.key = {.device = *device,
                               .gemm = *gemm,
                               .policy = text_of(row.getColumn(kNext + 3)),
                               .determinism = determinism},
                       .validators = *made_by,
                       .measured = *measured,
                       .launch = text_of(row.getColumn(kNext + 6)),
                       .created = text_of(row.getColumn(kNext + 5)),
                       .database = layer.path,
                       .writable = layer.writable,
                       .searched = search_beside(*layer.db, row.getColumn(kNext + 7).getInt64())});
  }
  return records;
}

Result<std::vector<Record>> listed(Store::Impl& store, const char* which) {
  const std::lock_guard lock(store.mutex);
  std::vector<Record> all;
  for (Layer& layer : store.layers) {
    auto records =
        guarded(layer.path, [&]() -> Result<std::vector<Record>> { return list_of(layer, which); });
    if (!records) return records;
    for (Record& record : *records) all.push_back(std::move(record));
  }
  return all;
}

}  // namespace

Result<std::vector<Record>> Store::list() { return listed(*impl_, kOfSingleSizes); }

Result<std::vector<Record>> Store::list_kernels() { return listed(*impl_, "true"); }

Result<std::vector<StoreStats>> Store::stats() {
  const std::lock_guard lock(impl_->mutex);
  std::vector<StoreStats> all;
  for (Layer& layer : impl_->layers) {
    auto stats = guarded(layer.path, [&]() -> Result<StoreStats> { return stats_of(layer); });
    if (!stats) return tl::unexpected(stats.error());
    all.push_back(std::move(*stats));
  }
  return all;
}

Result<CheckReport> Store::check(bool repair_too) {
  const std::lock_guard lock(impl_->mutex);
  if (repair_too) {
    if (Status ok = impl_->writable(); !ok) return tl::unexpected(ok.error());
  }
  CheckReport report;
  for (Layer& layer : impl_->layers) {
    const Status done = guarded(layer.path, [&]() -> Status {
      Checker checker(layer, report);
      checker.run();
      if (repair_too && &layer == &impl_->own()) report.repaired = repair(layer, checker.bad());
      return {};
    });
    if (!done) return tl::unexpected(done.error());
  }
  return report;
}

}  // namespace kiln
