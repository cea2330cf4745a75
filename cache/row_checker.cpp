#include "cache/row_checker.h"

#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include <string_view>

#include "cache/rows.h"
#include "cache/schema.h"
#include "cache/seal.h"
#include "cache/store_impl.h"

namespace kiln {
namespace {

/// Looks at every row of one file with the same readers that look-ups use.
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
    each("limits", [&](std::int64_t id) { return read_limits(*layer_.db, id).has_value(); });
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
                          fmt::format("SELECT {}, measurement.id, measurement.winner = 1 OR "
                                      "measurement.launch <> '', measurement.determinism FROM {}",
                                      kMeasuredColumns, kMeasurementJoin));
    const int id_column = row.getColumnCount() - 3;
    while (row.executeStep()) {
      ++report_.rows;
      const std::int64_t id = row.getColumn(id_column).getInt64();
      const std::string config = text_of(row.getColumn(0));
      Determinism determinism{};
      if (!read_measured(row))
        found("measurement", id,
              fmt::format("config = {}: it, its round or its timing cannot be read", config));
      else if (!from_value(row.getColumn(id_column + 2).getString(), determinism))
        found("measurement", id,
              fmt::format("determinism = {}: there is no such class",
                          text_of(row.getColumn(id_column + 2))));
      else if (row.getColumn(id_column + 1).getInt() == 1 && !measurement_sealed(*layer_.db, id))
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

}  // namespace

std::vector<BadRow> check_rows(Layer& layer, CheckReport& report) {
  Checker checker(layer, report);
  checker.run();
  return checker.bad();
}

std::int64_t remove_rows(Layer& layer, const std::vector<BadRow>& bad) {
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
      for (const char* of_device : {"peak", "limits", "fit", "range"})
        drop("device_id", of_device, row.id);
    drop("id", row.table, row.id);
  }
  transaction.commit();
  layer.db->exec("REINDEX");
  return removed;
}

}  // namespace kiln
