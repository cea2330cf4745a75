#include "cache/records/measurements.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "cache/keys.h"
#include "cache/layers/layers.h"
#include "cache/rows/queries.h"
#include "cache/rows/rows.h"
#include "generator/families/cpu/library/config.h"
#include "generator/families/cuda/library/config.h"

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
  RowsById<DeviceCaps> device_rows(db);
  RowsById<Gemm> problem_rows(db);
  RowsById<Validators> toolchain_rows(db);
  Shared<DeviceCaps> devices;
  Shared<Gemm> problems;
  Shared<Validators> toolchains;
  while (row.executeStep()) {
    const auto& device =
        devices.at(row.getColumn(kMeasuredColumnCount).getInt64(), [&](std::int64_t id) {
          auto read = device_rows.read(id);
          return read && fingerprint(*read).find(filter.device) != std::string::npos ? read
                                                                                     : std::nullopt;
        });
    const auto& gemm =
        problems.at(row.getColumn(kMeasuredColumnCount + 1).getInt64(), [&](std::int64_t id) {
          auto read = problem_rows.read(id);
          return read && filter.takes(*read) ? read : std::nullopt;
        });
    const auto& made_by =
        toolchains.at(row.getColumn(kMeasuredColumnCount + 2).getInt64(), [&](std::int64_t id) {
          auto read = toolchain_rows.read(id);
          return read && read->runtime.find(filter.runtime) != std::string::npos ? read
                                                                                 : std::nullopt;
        });
    if (!device || !gemm || !made_by) continue;
    auto measured = read_measured(row);
    Determinism determinism{};
    if (!measured || !from_value(row.getColumn(kMeasuredColumnCount + 4).getString(), determinism))
      continue;  // check() is what reports it
    visit({.key = {.device = *device,
                   .gemm = *gemm,
                   .policy = text_of(row.getColumn(kMeasuredColumnCount + 3)),
                   .determinism = determinism},
           .validators = *made_by,
           .measured = std::move(*measured),
           .winner = row.getColumn(kMeasuredColumnCount + 6).getInt() == 1,
           .created = text_of(row.getColumn(kMeasuredColumnCount + 5)),
           .database = layer.path});
  }
}

/// Adds a row unless one of its key and config is here. True when it was added.
bool add_evidence_row(SQLite::Database& db, const StoredMeasurement& row,
                      std::optional<std::int64_t> session) {
  const KeyIds ids = key_rows(db, row.key, row.validators);
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

Status Measurements::put(const BestKey& key, const Validators& made_by, const Measured& measured) {
  return layers_.write([&](SQLite::Database& db) -> Status {
    put_measurement(db, key, key_rows(db, key, made_by), measured, layers_.session());
    return {};
  });
}

Status Measurements::put_search(const BestKey& key, const Validators& made_by,
                                const SearchExtent& searched) {
  return layers_.write([&](SQLite::Database& db) -> Status {
    put_search_row(db, key, key_rows(db, key, made_by), searched);
    return {};
  });
}

std::vector<Measured> Measurements::known(const BestKey& key, const Validators& now) {
  const QuietLock lock(layers_.mutex());
  std::vector<Measured> all;
  std::set<Config> seen;
  const auto add_from = [&](Layer& layer) {
    SQLite::Statement row(
        *layer.db, fmt::format("SELECT {} FROM {} WHERE {} AND {} AND {} ORDER BY measurement.id",
                               kMeasuredColumns, kMeasurementJoin, kProblemCondition,
                               kSettingCondition, kTemplateCondition));
    bind_key(row, key, now);
    while (row.executeStep()) {
      auto measured = read_measured(row);
      if (measured && seen.insert(measured->config).second) all.push_back(std::move(*measured));
    }
    return true;
  };
  for (Layer& layer : layers_.all()) lookup(layer, [&] { return add_from(layer); });
  return all;
}

std::vector<Measured> Measurements::winners_and_libraries(const BestKey& key) {
  const QuietLock lock(layers_.mutex());
  std::vector<Measured> all;
  const auto add_from = [&](Layer& layer) {
    SQLite::Statement row(
        *layer.db, fmt::format("SELECT {} FROM {} WHERE {} AND {} AND measurement.median_ns IS NOT "
                               "NULL AND (measurement.winner = 1 OR config.text LIKE '{} %' OR "
                               "config.text LIKE '{} %') "
                               "ORDER BY measurement.id DESC",
                               kMeasuredColumns, kMeasurementJoin, kProblemCondition,
                               kSettingCondition, BlasLibrary::kFamily, CudaLibrary::kFamily));
    bind_key(row, key, {});
    while (row.executeStep())
      if (auto measured = read_measured(row)) all.push_back(std::move(*measured));
    return true;
  };
  for (Layer& layer : layers_.all()) lookup(layer, [&] { return add_from(layer); });
  return all;
}

std::vector<TimedConfig> Measurements::timed_like(const BestKey& key) {
  const QuietLock lock(layers_.mutex());
  std::vector<TimedConfig> all;
  const auto add_from = [&](Layer& layer) {
    // Problems and configs are few, and each is read many times.
    std::map<std::int64_t, std::optional<Gemm>> problems;
    std::map<std::string, std::optional<Config>> configs;
    RowsById<Gemm> rows(*layer.db);
    SQLite::Statement row(*layer.db, R"sql(
      SELECT measurement.problem_id, config.text, median_ns FROM measurement
        JOIN config ON config.id = measurement.config_id
        JOIN problem ON problem.id = measurement.problem_id
      WHERE measurement.device_id = (SELECT id FROM device WHERE key = ?1) AND problem.class = ?2
        AND policy = ?3 AND determinism = ?4 AND median_ns IS NOT NULL AND quarantined IS NULL
      ORDER BY measurement.id DESC)sql");
    bind_class_key(row, key);
    while (row.executeStep()) {
      const std::int64_t id = row.getColumn(0).getInt64();
      auto [gemm, fresh] = problems.try_emplace(id);
      if (fresh) gemm->second = rows.read(id);
      const std::string text = row.getColumn(1).getString();
      auto [config, unknown] = configs.try_emplace(text);
      if (unknown)
        if (auto parsed = parse_config(text)) config->second = std::move(*parsed);
      const double ns = row.getColumn(2).getDouble();
      if (gemm->second && config->second && std::isfinite(ns) && ns > 0)
        all.push_back({*gemm->second, *config->second, ns});
    }
    return true;
  };
  for (Layer& layer : layers_.all()) lookup(layer, [&] { return add_from(layer); });
  return all;
}

Status Measurements::each(const MeasurementFilter& filter, const MeasurementVisitor& visit) {
  const QuietLock lock(layers_.mutex());
  for (Layer& layer : layers_.all()) {
    const Status read = guarded(layer.path, [&]() -> Status {
      visit_layer(layer, filter, visit);
      return {};
    });
    if (!read) return read;
  }
  return {};
}

Result<std::int64_t> Measurements::add_evidence(const std::vector<StoredMeasurement>& rows) {
  std::int64_t added = 0;
  const Status written = layers_.write([&](SQLite::Database& db) -> Status {
    for (const StoredMeasurement& row : rows)
      added += static_cast<std::int64_t>(add_evidence_row(db, row, layers_.session()));
    return {};
  });
  if (!written) return tl::unexpected(written.error());
  return added;
}

}  // namespace kiln
