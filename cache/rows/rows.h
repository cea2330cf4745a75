// Values to rows and back. Writers find or make the row and return its id; readers check every
// column and return nothing for a row that cannot be what kiln wrote. Throws what SQLite throws.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <optional>
#include <span>

#include "cache/keys.h"
#include "cache/record.h"
#include "cache/rows/range_table.h"
#include "runtime/machine_limits.h"
#include "tuner/search/fitted_model.h"

namespace kiln {

/// Row ids that together are one key made by one toolchain.
struct KeyIds {
  std::int64_t device = 0, problem = 0, toolchain = 0;
};

void bind_value(SQLite::Statement& statement, int index, const Value& value);

std::int64_t device_row(SQLite::Database& db, const DeviceCaps& device);
std::int64_t problem_row(SQLite::Database& db, const Gemm& gemm);
std::int64_t toolchain_row(SQLite::Database& db, const Validators& validators);
std::int64_t config_row(SQLite::Database& db, const Config& config);
inline KeyIds key_rows(SQLite::Database& db, const BestKey& key, const Validators& made_by) {
  return {.device = device_row(db, key.device),
          .problem = problem_row(db, key.gemm),
          .toolchain = toolchain_row(db, made_by)};
}
/// Stores a text once, compressed. 0 for an empty one.
std::int64_t source_row(SQLite::Database& db, const std::string& text);
/// Text kept in `source`, or nothing when it is not what was stored.
std::optional<std::string> read_source(SQLite::Database& db, std::int64_t id);
/// Adds or replaces the row of this key and config; a winner stays one, stamped anew.
void put_measurement(SQLite::Database& db, const BestKey& key, const KeyIds& ids,
                     const Measured& measured, std::optional<std::int64_t> session);
/// Gives a winner of this key that has none its launch, as today's generator works it out, and its
/// seal.
void stamp_winner(SQLite::Database& db, const BestKey& key, const KeyIds& ids);
/// Adds or replaces the row of this key.
void put_search_row(SQLite::Database& db, const BestKey& key, const KeyIds& ids,
                    const SearchExtent& searched);
/// Adds or raises the row of this device and type.
void raise_peak_row(SQLite::Database& db, const DeviceCaps& device, DType type, double flops);
/// Code and its source, without the head that names a problem; a key that is there already is left
/// alone unless it was quarantined.
void put_binary_row(SQLite::Database& db, const StoredBinary& binary);
/// Code that no winner names is compiled again when it is asked for: its binary, proofs and source
/// are removed. `key`: of the binary.
void drop_unused_code(SQLite::Database& db, const std::string& key);
/// Whether a machine can have such limits: none below 0 or above kMostFlops, fp32_flops more than
/// 0.
bool plausible(const MachineLimits& limits);
/// Adds or replaces the row of their device, as measured just now.
void put_limits_row(SQLite::Database& db, const MachineLimits& limits);
/// Adds or replaces the row of this range.
void put_range_row(SQLite::Database& db, const BestKey& key, const GemmRange& range,
                   const RangeTable& table);
/// What the column `rest` holds of all problems of a range: their key without the size.
std::string rest_text(const Gemm& gemm, Size size);

/// A column's text, fit to be shown. What is only compared (keys, hashes) is read as it is.
std::string text_of(const SQLite::Column& column);

/// A column's bytes, valid until the next row.
std::span<const std::byte> blob(const SQLite::Column& column);

/// One row of a query that begins with kMeasuredColumns.
std::optional<Measured> read_measured(SQLite::Statement& row);
inline constexpr const char* kMeasuredColumns =
    "config.text, measurement.predicted_ns, measurement.round, measurement.verified, "
    "measurement.median_ns, measurement.low_ns, measurement.high_ns, measurement.samples, "
    "measurement.failure, measurement.detail, measurement.binary_key, measurement.joules, "
    "measurement.sm_mhz";
/// How many they are: what follows them in a SELECT starts here.
inline constexpr int kMeasuredColumnCount = 13;

/// No device reaches this many operations a second.
inline constexpr double kMostFlops = 1e18;

/// Values of one table by their ids. The statement is prepared once: for a table of many columns
/// that takes longer than to read a row. T: DeviceCaps, Gemm, Validators or SearchExtent.
template <typename T>
class RowsById {
 public:
  explicit RowsById(SQLite::Database& db);
  /// Nothing when a column is out of range, an enum unknown, the value invalid or the row's key not
  /// that of its fields.
  std::optional<T> read(std::int64_t id);

 private:
  SQLite::Statement row_;
};

/// By id; nothing when a column is out of range, an enum unknown, the problem invalid or the row's
/// key not that of its fields.
inline std::optional<DeviceCaps> read_device(SQLite::Database& db, std::int64_t id) {
  return RowsById<DeviceCaps>(db).read(id);
}
inline std::optional<Gemm> read_problem(SQLite::Database& db, std::int64_t id) {
  return RowsById<Gemm>(db).read(id);
}
inline std::optional<Validators> read_toolchain(SQLite::Database& db, std::int64_t id) {
  return RowsById<Validators>(db).read(id);
}
/// Operations a second of a row of `peak`.
std::optional<double> read_peak(SQLite::Database& db, std::int64_t id);
/// A row of `limits`, without its device.
std::optional<MachineLimits> read_limits(SQLite::Database& db, std::int64_t id);
std::optional<FittedModel> read_fit(SQLite::Database& db, std::int64_t id);
/// Without the file's name.
std::optional<RangeRecord> read_range(SQLite::Database& db, std::int64_t id);
/// Of the key and toolchain of a row of `measurement`.
std::optional<SearchExtent> search_beside(SQLite::Database& db, std::int64_t measurement_id);

/// Code of a binary row with its source; nothing when a hash, the seal or a length does not match.
std::optional<StoredBinary> read_binary(SQLite::Database& db, std::int64_t id);

}  // namespace kiln
