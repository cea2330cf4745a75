#include "cache/rows/rows.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>

#include "cache/codec/codec.h"
#include "cache/printable.h"
#include "cache/rows/seal.h"
#include "generator/space/launch_text.h"

namespace kiln {

void bind_value(SQLite::Statement& statement, int index, const Value& value) {
  std::visit([&](const auto& v) { statement.bind(index, v); }, value);
}

namespace {

std::optional<Value> column_value(const SQLite::Column& column) {
  if (column.isInteger()) return Value(column.getInt64());
  if (column.isFloat()) return Value(column.getDouble());
  if (column.isText()) return Value(text_of(column));
  return std::nullopt;
}

/// Columns of one INSERT, gathered from a field visitor.
class RowWriter {
 public:
  explicit RowWriter(std::string table) : table_(std::move(table)) {}

  template <typename T>
  void operator()(std::string_view name, const T& field) {
    names_ += fmt::format("{}{}", names_.empty() ? "" : ", ", name);
    values_.push_back(to_value(field));
  }

  /// The id of the row whose first column (the unique one) has its value, made when absent.
  std::int64_t find_or_insert(SQLite::Database& db) const {
    const std::string unique = names_.substr(0, names_.find(','));
    SQLite::Statement find(db, fmt::format("SELECT id FROM {} WHERE {} = ?", table_, unique));
    bind_value(find, 1, values_.front());
    if (find.executeStep()) return find.getColumn(0).getInt64();
    std::string marks = "?";
    for (std::size_t i = 1; i < values_.size(); ++i) marks += ", ?";
    SQLite::Statement insert(db,
                             fmt::format("INSERT INTO {} ({}) VALUES ({})", table_, names_, marks));
    for (std::size_t i = 0; i < values_.size(); ++i)
      bind_value(insert, static_cast<int>(i) + 1, values_[i]);
    insert.exec();
    return db.getLastInsertRowid();
  }

 private:
  std::string table_, names_;
  std::vector<Value> values_;
};

/// Fields of one row, read by a field visitor in the order of the SELECT.
class RowReader {
 public:
  explicit RowReader(SQLite::Statement& row) : row_(row) {}
  template <typename T>
  void operator()(std::string_view, T& field) {
    const auto value = column_value(row_.getColumn(index_++));
    ok_ = ok_ && value && from_value(*value, field);
  }
  /// The value of one field of a problem.
  std::int64_t value_of(const GemmField& field) {
    const auto value = column_value(row_.getColumn(index_++));
    const auto number = value ? field_value(field, *value) : std::nullopt;
    ok_ = ok_ && number;
    return number.value_or(0);
  }
  bool ok() const { return ok_; }
  /// Whether the next column holds `text`: keys stand beside the fields that they are made of.
  bool next_is(std::string_view text) {
    const auto value = column_value(row_.getColumn(index_++));
    const auto* stored = value ? std::get_if<std::string>(&*value) : nullptr;
    return stored != nullptr && *stored == text;
  }

 private:
  SQLite::Statement& row_;
  int index_ = 0;
  bool ok_ = true;
};

/// Column names of a visitor, for its SELECT.
struct NameList {
  std::string text;
  template <typename T>
  void operator()(std::string_view name, const T&) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  }
};

}  // namespace

std::span<const std::byte> blob(const SQLite::Column& column) {
  return {static_cast<const std::byte*>(column.getBlob()),
          static_cast<std::size_t>(column.getBytes())};
}

std::string text_of(const SQLite::Column& column) { return printable_line(column.getString()); }

std::int64_t device_row(SQLite::Database& db, const DeviceCaps& device) {
  RowWriter row("device");
  row("key", key_text(device));
  for_each_device_field(device, row);
  return row.find_or_insert(db);
}

std::int64_t problem_row(SQLite::Database& db, const Gemm& gemm) {
  RowWriter row("problem");
  row("key", key_text(gemm));
  row("class", class_text(gemm));
  for (const GemmField& field : kGemmFields) row(field.name, column_value(field, field.get(gemm)));
  return row.find_or_insert(db);
}

std::int64_t toolchain_row(SQLite::Database& db, const Validators& validators) {
  RowWriter row("toolchain");
  row("key", key_text(validators));
  for_each_validator_field(validators, row);
  return row.find_or_insert(db);
}

std::int64_t config_row(SQLite::Database& db, const Config& config) {
  RowWriter row("config");
  row("text", text(config));
  row("family", family_name(config));
  return row.find_or_insert(db);
}

void put_measurement(SQLite::Database& db, const BestKey& key, const KeyIds& ids,
                     const Measured& measured, std::optional<std::int64_t> session) {
  SQLite::Statement row(db, R"sql(
    INSERT INTO measurement (device_id, problem_id, policy, determinism, toolchain_id, config_id,
      session_id, predicted_ns, round, verified, median_ns, low_ns, high_ns, samples, failure,
      detail, binary_key, joules, sm_mhz, created)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
      strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
    ON CONFLICT (device_id, problem_id, policy, determinism, toolchain_id, config_id) DO UPDATE SET
      session_id = excluded.session_id, predicted_ns = excluded.predicted_ns,
      round = excluded.round, verified = excluded.verified, median_ns = excluded.median_ns,
      low_ns = excluded.low_ns, high_ns = excluded.high_ns, samples = excluded.samples,
      failure = excluded.failure, detail = excluded.detail, binary_key = excluded.binary_key,
      joules = excluded.joules, sm_mhz = excluded.sm_mhz, created = excluded.created,
      quarantined = NULL,
      launch = '', seal = '', winner = CASE WHEN excluded.failure IS NULL THEN winner ELSE 0 END)sql");
  row.bind(1, ids.device);
  row.bind(2, ids.problem);
  row.bind(3, key.policy);
  bind_value(row, 4, to_value(key.determinism));
  row.bind(5, ids.toolchain);
  row.bind(6, config_row(db, measured.config));
  if (session) row.bind(7, *session);
  row.bind(8, measured.predicted_ns);
  bind_value(row, 9, to_value(measured.round));
  row.bind(10, static_cast<int>(measured.verified));
  if (measured.ok()) {
    row.bind(11, measured.timing().median_ns);
    row.bind(12, measured.timing().low_ns);
    row.bind(13, measured.timing().high_ns);
    row.bind(14, measured.timing().samples);
    if (!measured.disturbed.empty()) row.bind(16, measured.disturbed);
    if (measured.timing().joules > 0) row.bind(18, measured.timing().joules);
    if (measured.timing().sm_mhz > 0) row.bind(19, measured.timing().sm_mhz);
  } else {
    bind_value(row, 15, to_value(measured.failure().kind));
    row.bind(16, measured.failure().detail);
  }
  row.bind(17, measured.binary_key);
  row.exec();
  stamp_winner(db, key, ids);  // the row may be the winner's
}

void stamp_winner(SQLite::Database& db, const BestKey& key, const KeyIds& ids) {
  SQLite::Statement find(db,
                         "SELECT measurement.id, config.text FROM measurement JOIN config ON "
                         "config.id = config_id WHERE device_id = ? AND problem_id = ? AND "
                         "policy = ? AND determinism = ? AND toolchain_id = ? AND winner = 1 AND "
                         "seal = ''");
  find.bind(1, ids.device);
  find.bind(2, ids.problem);
  find.bind(3, key.policy);
  bind_value(find, 4, to_value(key.determinism));
  find.bind(5, ids.toolchain);
  if (!find.executeStep()) return;
  const std::int64_t id = find.getColumn(0).getInt64();
  const auto config = parse_config(find.getColumn(1).getString());
  find.reset();
  SQLite::Statement launch(db, "UPDATE measurement SET launch = ? WHERE id = ?");
  launch.bind(1, config ? launch_text(key.problem(), key.device, *config) : std::string());
  launch.bind(2, id);
  launch.exec();
  seal_measurement(db, id);
}

void put_search_row(SQLite::Database& db, const BestKey& key, const KeyIds& ids,
                    const SearchExtent& searched) {
  NameList names;
  for_each_search_field(searched, names);
  std::vector<Value> values{ids.device, ids.problem, key.policy, to_value(key.determinism),
                            ids.toolchain};
  const auto add = [&](std::string_view, const auto& field) { values.push_back(to_value(field)); };
  for_each_search_field(searched, add);
  std::string marks = "?";
  for (std::size_t i = 1; i < values.size(); ++i) marks += ", ?";
  SQLite::Statement row(
      db, fmt::format("INSERT OR REPLACE INTO search (device_id, problem_id, policy, determinism, "
                      "toolchain_id, {}, created) VALUES ({}, "
                      "strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
                      names.text, marks));
  for (std::size_t i = 0; i < values.size(); ++i)
    bind_value(row, static_cast<int>(i) + 1, values[i]);
  row.exec();
}

void raise_peak_row(SQLite::Database& db, const DeviceCaps& device, DType type, double flops) {
  SQLite::Statement row(db, R"sql(
    INSERT INTO peak (device_id, dtype, flops, created)
    VALUES (?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
    ON CONFLICT (device_id, dtype) DO UPDATE SET flops = excluded.flops, created = excluded.created
    WHERE excluded.flops > flops)sql");
  row.bind(1, device_row(db, device));
  bind_value(row, 2, to_value(type));
  row.bind(3, flops);
  row.exec();
}

std::optional<Measured> read_measured(SQLite::Statement& row) {
  const auto config = parse_config(row.getColumn(0).getString());
  Round round = Round::screen;
  if (!config || !from_value(row.getColumn(2).getString(), round)) return std::nullopt;
  Measured measured;
  measured.config = *config;
  measured.predicted_ns = row.getColumn(1).getDouble();
  measured.round = round;
  measured.verified = row.getColumn(3).getInt() == 1;
  measured.binary_key = text_of(row.getColumn(10));
  if (row.getColumn(8).isNull()) {
    const Timing timing{.median_ns = row.getColumn(4).getDouble(),
                        .low_ns = row.getColumn(5).getDouble(),
                        .high_ns = row.getColumn(6).getDouble(),
                        .samples = row.getColumn(7).getInt(),
                        .joules = row.getColumn(11).getDouble(),
                        .sm_mhz = row.getColumn(12).getInt()};
    if (!(timing.median_ns > 0) || timing.samples < 0) return std::nullopt;
    if (!(timing.joules >= 0) || !std::isfinite(timing.joules) || timing.sm_mhz < 0)
      return std::nullopt;
    measured.outcome = timing;
    if (!row.getColumn(9).isNull()) measured.disturbed = printable(text_of(row.getColumn(9)));
  } else {
    Failure failure{.detail = printable(row.getColumn(9).getString())};  // a compiler's lines
    if (!from_value(row.getColumn(8).getString(), failure.kind)) return std::nullopt;
    measured.outcome = failure;
  }
  return measured;
}

namespace {

/// How a value lies in its table: `visit` names its fields, `kMore` are the columns behind them, of
/// which `sound` reads what it compares.
template <typename T>
struct Table;

template <>
struct Table<DeviceCaps> {
  static constexpr const char *kName = "device", *kMore = ", key";
  static void visit(auto& device, auto& fields) { for_each_device_field(device, fields); }
  static bool sound(const DeviceCaps& device, RowReader& row) {
    return device.compute_units >= 1 && row.next_is(key_text(device));
  }
};

template <>
struct Table<Gemm> {
  static constexpr const char *kName = "problem", *kMore = ", key, class";
  static void visit(const Gemm& gemm, NameList& names) {
    for (const GemmField& field : kGemmFields) names(field.name, field.get(gemm));
  }
  static void visit(Gemm& gemm, RowReader& row) {
    FieldValues values{};
    for (std::size_t i = 0; i < kGemmFieldCount; ++i) values[i] = row.value_of(kGemmFields[i]);
    if (const auto read = gemm_of(values)) gemm = *read;
  }
  static bool sound(const Gemm& gemm, RowReader& row) {
    return Problem::of(gemm) && row.next_is(key_text(gemm)) && row.next_is(class_text(gemm));
  }
};

template <>
struct Table<Validators> {
  static constexpr const char *kName = "toolchain", *kMore = ", key";
  static void visit(auto& validators, auto& fields) {
    for_each_validator_field(validators, fields);
  }
  static bool sound(const Validators& validators, RowReader& row) {
    return row.next_is(key_text(validators));
  }
};

template <>
struct Table<SearchExtent> {
  static constexpr const char *kName = "search", *kMore = "";
  static void visit(auto& extent, auto& fields) { for_each_search_field(extent, fields); }
  static bool sound(const SearchExtent& s, RowReader&) {
    return s.seconds >= 0 && s.spent_seconds >= 0 && s.spent_seconds <= s.budget_seconds &&
           s.measured >= 0 && s.failed >= 0 && s.measured <= s.enumerated &&
           s.failed <= s.enumerated - s.measured;
  }
};

template <typename T>
std::string select_text() {
  NameList names;
  const T value{};
  Table<T>::visit(value, names);
  return fmt::format("SELECT {}{} FROM {} WHERE id = ?", names.text, Table<T>::kMore,
                     Table<T>::kName);
}

}  // namespace

template <typename T>
RowsById<T>::RowsById(SQLite::Database& db) : row_(db, select_text<T>()) {}

template <typename T>
std::optional<T> RowsById<T>::read(std::int64_t id) {
  row_.reset();
  row_.bind(1, id);
  std::optional<T> found;
  if (row_.executeStep()) {
    found.emplace();
    RowReader reader(row_);
    Table<T>::visit(*found, reader);
    if (!reader.ok() || !Table<T>::sound(*found, reader)) found.reset();
  }
  row_.reset();
  return found;
}

template class RowsById<DeviceCaps>;
template class RowsById<Gemm>;
template class RowsById<Validators>;
template class RowsById<SearchExtent>;

std::optional<SearchExtent> search_beside(SQLite::Database& db, std::int64_t measurement_id) {
  SQLite::Statement row(db, R"sql(
    SELECT search.id FROM search JOIN measurement USING (device_id, problem_id, policy, determinism,
      toolchain_id) WHERE measurement.id = ?)sql");
  row.bind(1, measurement_id);
  return row.executeStep() ? RowsById<SearchExtent>(db).read(row.getColumn(0).getInt64())
                           : std::nullopt;
}

std::optional<double> read_peak(SQLite::Database& db, std::int64_t id) {
  SQLite::Statement row(db, "SELECT dtype, flops FROM peak WHERE id = ?");
  row.bind(1, id);
  DType type{};
  if (!row.executeStep() || !from_value(row.getColumn(0).getString(), type)) return std::nullopt;
  const double flops = row.getColumn(1).getDouble();
  return flops > 0 && flops <= kMostFlops ? std::optional(flops) : std::nullopt;
}

std::optional<FittedModel> read_fit(SQLite::Database& db, std::int64_t id) {
  SQLite::Statement row(db, "SELECT hash, bytes, data FROM fit WHERE id = ?");
  row.bind(1, id);
  if (!row.executeStep()) return std::nullopt;
  const auto text = decompress(blob(row.getColumn(2)), row.getColumn(1).getInt64(), kMaxTextBytes);
  if (!text || content_hash(*text) != row.getColumn(0).getString()) return std::nullopt;
  auto model = FittedModel::parse(as_text(*text));
  return model ? std::optional(std::move(*model)) : std::nullopt;
}

}  // namespace kiln
