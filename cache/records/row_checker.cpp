#include "cache/records/row_checker.h"

#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>

#include "cache/layers/schema.h"
#include "cache/records/maintenance.h"
#include "cache/records/unpacked.h"
#include "cache/rows/queries.h"
#include "cache/rows/rows.h"
#include "cache/rows/seal.h"

namespace kiln {
namespace {

/// Looks at every row of one file with the same readers that look-ups use.
class RowChecker {
 public:
  RowChecker(Layer& layer, CheckReport& report) : layer_(layer), report_(report) {}

  void run() {
    pragma("PRAGMA integrity_check", 0, "ok");
    // Columns: table, rowid, parent, number of the key.
    pragma("PRAGMA foreign_key_check", 0, "");
    unpacking_too_large();
    each_value<DeviceCaps>("device");
    each_value<Gemm>("problem");
    each_value<Validators>("toolchain");
    each_value<SearchExtent>("search");
    each("peak", [&](std::int64_t id) { return read_peak(*layer_.db, id).has_value(); });
    each("limits", [&](std::int64_t id) { return read_limits(*layer_.db, id).has_value(); });
    each("fit", [&](std::int64_t id) { return read_fit(*layer_.db, id).has_value(); });
    each("range", [&](std::int64_t id) { return read_range(*layer_.db, id).has_value(); });
    each("binary", [&](std::int64_t id) { return read_binary(*layer_.db, id).has_value(); });
    // Others are read with what names them.
    each("source", "id NOT IN (SELECT source_id FROM binary WHERE source_id IS NOT NULL)",
         [&](std::int64_t id) { return read_source(*layer_.db, id).has_value(); });
    each("config", "id NOT IN (SELECT config_id FROM measurement)",
         [&](std::int64_t id) { return has_config(id); });
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
  void each(const std::string& table, const char* which, F&& good) {
    for (const std::int64_t id : ids(fmt::format("SELECT id FROM {} WHERE {}", table, which))) {
      ++report_.rows;
      if (!never_unpacked_.contains({table, id}) && !good(id))
        found(table, id, "cannot be read back as what kiln writes");
    }
  }
  template <typename T>
  void each_value(const std::string& table) {
    RowsById<T> rows(*layer_.db);
    each(table, [&](std::int64_t id) { return rows.read(id).has_value(); });
  }
  template <typename F>
  void each(const std::string& table, F&& good) {
    each(table, "true", good);
  }

  /// Rows that unpack to so much that they are only named, and code that is made of such sources.
  void unpacking_too_large() {
    for (const PackedRow& row : rows_beyond_limit(*layer_.db)) {
      found(row.table, row.id,
            fmt::format("{} bytes that unpack to {}: the file unpacks to more than kiln writes",
                        row.stored, row.bytes));
      never_unpacked_.insert({row.table, row.id});
      if (row.table != "source") continue;
      const std::string its_code =
          fmt::format("SELECT id FROM binary WHERE source_id = {}", row.id);
      for (const std::int64_t id : ids(its_code)) never_unpacked_.insert({"binary", id});
    }
  }

  bool has_config(std::int64_t id) {
    SQLite::Statement row(*layer_.db, "SELECT text FROM config WHERE id = ?");
    row.bind(1, id);
    return row.executeStep() && parse_config(row.getColumn(0).getString()).has_value();
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
  std::set<std::pair<std::string, std::int64_t>> never_unpacked_;
};

}  // namespace

std::vector<BadRow> check_rows(Layer& layer, CheckReport& report) {
  RowChecker checker(layer, report);
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
    if (row.table == "source") drop("source_id", "binary", row.id);
    drop("id", row.table, row.id);
  }
  // What they named may be what was wrong with them.
  if (!bad.empty())
    layer.db->exec(
        "DELETE FROM config WHERE id NOT IN (SELECT config_id FROM measurement);"
        "DELETE FROM source WHERE id NOT IN (SELECT source_id FROM binary WHERE source_id IS NOT "
        "NULL)");
  transaction.commit();
  layer.db->exec("REINDEX");
  return removed;
}

}  // namespace kiln
