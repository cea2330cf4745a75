// Every measurement, read and added without its code.
#include "cache/records/measurements.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <map>
#include <optional>

#include "cache/layers/layers.h"

namespace kiln {
namespace {

/// Values that many rows share, read once each.
template <typename T>
class Shared {
 public:
  template <typename Read>
  const std::optional<T>& at(std::int64_t id, Read&& read) {
    auto [known, fresh] = known_.try_emplace(id);
    if (fresh) known->second = read(id);
    return known->second;
  }

 private:
  std::map<std::int64_t, std::optional<T>> known_;
};

void visit_layer(Layer& layer, const MeasurementFilter& filter, const MeasurementVisitor& visit) {
  SQLite::Database& db = *layer.db;
  SQLite::Statement row(
      db, fmt::format("SELECT {}, measurement.device_id, measurement.problem_id, "
                      "measurement.toolchain_id, measurement.policy, measurement.determinism, "
                      "measurement.created, measurement.winner FROM {} "
                      "WHERE measurement.quarantined IS NULL {} ORDER BY measurement.id",
                      kMeasuredColumns, kMeasurementJoin,
                      filter.winners ? "AND measurement.winner = 1" : ""));
  constexpr int kNext = 11;
  RowsById<DeviceCaps> device_rows(db);
  RowsById<Gemm> problem_rows(db);
  RowsById<Validators> toolchain_rows(db);
  Shared<DeviceCaps> devices;
  Shared<Gemm> problems;
  Shared<Validators> toolchains;
  while (row.executeStep()) {
    const auto& device = devices.at(row.getColumn(kNext).getInt64(), [&](std::int64_t id) {
      auto read = device_rows.read(id);
      return read && fingerprint(*read).find(filter.device) != std::string::npos ? read
                                                                                 : std::nullopt;
    });
    const auto& gemm = problems.at(row.getColumn(kNext + 1).getInt64(), [&](std::int64_t id) {
      auto read = problem_rows.read(id);
      return read && filter.takes(*read) ? read : std::nullopt;
    });
    const auto& made_by = toolchains.at(row.getColumn(kNext + 2).getInt64(), [&](std::int64_t id) {
      auto read = toolchain_rows.read(id);
      return read && read->runtime.find(filter.runtime) != std::string::npos ? read : std::nullopt;
    });
    if (!device || !gemm || !made_by) continue;
    auto measured = read_measured(row);
    Determinism determinism{};
    if (!measured || !from_value(row.getColumn(kNext + 4).getString(), determinism))
      continue;  // check() is what reports it
    visit({.key = {.device = *device,
                   .gemm = *gemm,
                   .policy = text_of(row.getColumn(kNext + 3)),
                   .determinism = determinism},
           .validators = *made_by,
           .measured = std::move(*measured),
           .winner = row.getColumn(kNext + 6).getInt() == 1,
           .created = text_of(row.getColumn(kNext + 5)),
           .database = layer.path});
  }
}

/// Adds a row unless one of its key and config is here. True when it was added.
bool add_evidence_row(SQLite::Database& db, const StoredMeasurement& row,
                      std::optional<std::int64_t> session) {
  const KeyIds ids{.device = device_row(db, row.key.device),
                   .problem = problem_row(db, row.key.gemm),
                   .toolchain = toolchain_row(db, row.validators)};
  constexpr const char* kRow =
      "device_id = ?1 AND problem_id = ?2 AND policy = ?3 AND determinism = ?4 AND "
      "toolchain_id = ?5 AND config_id = ?6";
  const auto bind = [&](SQLite::Statement& statement) {
    statement.bind(1, ids.device);
    statement.bind(2, ids.problem);
    statement.bind(3, row.key.policy);
    bind_value(statement, 4, to_value(row.key.determinism));
    statement.bind(5, ids.toolchain);
    statement.bind(6, config_row(db, row.measured.config));
  };
  SQLite::Statement here(db, fmt::format("SELECT 1 FROM measurement WHERE {}", kRow));
  bind(here);
  if (here.executeStep()) return false;
  Measured measured = row.measured;
  measured.binary_key.clear();
  put_measurement(db, row.key, ids, measured, session);
  if (row.created.empty()) return true;
  SQLite::Statement dated(db, fmt::format("UPDATE measurement SET created = ?7 WHERE {}", kRow));
  bind(dated);
  dated.bind(7, row.created);
  dated.exec();
  return true;
}

}  // namespace

bool MeasurementFilter::takes(const Gemm& gemm) const {
  if (shapes.empty()) return true;
  return std::ranges::any_of(shapes, [&](Gemm shape) {
    if (shape.alignment == Gemm{}.alignment) shape.alignment = gemm.alignment;
    return normalised(shape) == normalised(gemm);
  });
}

Status Store::each_measurement(const MeasurementFilter& filter, const MeasurementVisitor& visit) {
  const QuietLock lock(impl_->mutex);
  for (Layer& layer : impl_->layers) {
    const Status read = guarded(layer.path, [&]() -> Status {
      visit_layer(layer, filter, visit);
      return {};
    });
    if (!read) return read;
  }
  return {};
}

Result<std::int64_t> Store::add_evidence(const std::vector<StoredMeasurement>& rows) {
  std::int64_t added = 0;
  const Status written = write(*impl_, [&](SQLite::Database& db) -> Status {
    for (const StoredMeasurement& row : rows)
      added += static_cast<std::int64_t>(add_evidence_row(db, row, impl_->session));
    return {};
  });
  if (!written) return tl::unexpected(written.error());
  return added;
}

}  // namespace kiln
