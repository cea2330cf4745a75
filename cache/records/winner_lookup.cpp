// Winners by their key, and lists of them.
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include "cache/keys.h"
#include "cache/layers/layers.h"
#include "cache/records/binaries.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "cache/rows/queries.h"
#include "cache/rows/range_kernels.h"
#include "cache/rows/rows.h"
#include "cache/rows/seal.h"
#include "generator/space/launch_text.h"
#include "runtime/log.h"

namespace kiln {
namespace {

void attach_code(Layers& layers, Layer& layer, Record& record) {
  SQLite::Statement find(*layer.db, "SELECT id FROM binary WHERE key = ? AND quarantined IS NULL");
  find.bind(1, record.measured.binary_key);
  if (!find.executeStep()) return;
  const std::int64_t id = find.getColumn(0).getInt64();
  find.reset();
  if (auto binary = code_of(layers, layer, id)) {
    record.source = std::move(binary->source);
    record.image = std::move(binary->image);
  }
}

std::optional<Record> best_in(Layers& layers, Layer& layer, const BestKey& key,
                              const Validators& now) {
  if (!layer.winners.may_hold(*layer.db, key)) return std::nullopt;
  SQLite::Statement row(
      *layer.db, fmt::format("SELECT {}, measurement.id, measurement.toolchain_id, "
                             "measurement.created, measurement.launch FROM {} WHERE {} "
                             "AND {} AND measurement.winner = 1 "
                             "ORDER BY {} DESC, measurement.created DESC, measurement.id DESC",
                             kMeasuredColumns, kMeasurementJoin, kProblemCondition,
                             kSettingCondition, kTemplateCondition));
  bind_key(row, key, now);
  std::vector<std::int64_t> broken;
  std::optional<Record> found;
  while (!found && row.executeStep()) {
    const std::int64_t id = row.getColumn(kMeasuredColumnCount).getInt64();
    if (layers.is_bad(layer, "measurement", id)) continue;
    auto measured = read_measured(row);
    auto made_by = read_toolchain(*layer.db, row.getColumn(kMeasuredColumnCount + 1).getInt64());
    if (!measured || !measured->ok() || !made_by || !measurement_sealed(*layer.db, id)) {
      broken.push_back(id);
      continue;
    }
    const std::string launch = row.getColumn(kMeasuredColumnCount + 3).getString();
    if (!launch.empty() && launch != launch_text(key.problem(), key.device, measured->config)) {
      log::debug(
          "database {}: config '{}' for {}: skipped, its stored launch is not the one made now",
          layer.path.string(), text(measured->config), text(key.gemm));
      continue;
    }
    found = Record{.key = key,
                   .validators = std::move(*made_by),
                   .measured = std::move(*measured),
                   .launch = launch,
                   .created = text_of(row.getColumn(kMeasuredColumnCount + 2)),
                   .database = layer.path,
                   .writable = layer.writable,
                   .searched = search_beside(*layer.db, id)};
  }
  row.reset();
  for (const std::int64_t id : broken)
    layers.quarantine(
        layer, "measurement", id,
        "its config, round, timing or toolchain cannot be read, or its seal is not that of "
        "its fields");
  if (found) attach_code(layers, layer, *found);
  return found;
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
  RowsById<DeviceCaps> devices(*layer.db);
  RowsById<Gemm> problems(*layer.db);
  RowsById<Validators> toolchains(*layer.db);
  while (row.executeStep()) {
    auto measured = read_measured(row);
    auto device = devices.read(row.getColumn(kMeasuredColumnCount).getInt64());
    auto gemm = problems.read(row.getColumn(kMeasuredColumnCount + 1).getInt64());
    auto made_by = toolchains.read(row.getColumn(kMeasuredColumnCount + 2).getInt64());
    Determinism determinism{};
    if (!measured || !device || !gemm || !made_by ||
        !from_value(row.getColumn(kMeasuredColumnCount + 4).getString(), determinism))
      continue;  // check() is what reports it
    records.push_back(
        {.key = {.device = *device,
                 .gemm = *gemm,
                 .policy = text_of(row.getColumn(kMeasuredColumnCount + 3)),
                 .determinism = determinism},
         .validators = *made_by,
         .measured = *measured,
         .launch = text_of(row.getColumn(kMeasuredColumnCount + 6)),
         .created = text_of(row.getColumn(kMeasuredColumnCount + 5)),
         .database = layer.path,
         .writable = layer.writable,
         .searched = search_beside(*layer.db, row.getColumn(kMeasuredColumnCount + 7).getInt64())});
  }
  return records;
}

Result<std::vector<Record>> listed(Layers& layers, const char* which) {
  const QuietLock lock(layers.mutex());
  std::vector<Record> all;
  for (Layer& layer : layers.all()) {
    auto records =
        guarded(layer.path, [&]() -> Result<std::vector<Record>> { return list_of(layer, which); });
    if (!records) return records;
    for (Record& record : *records) all.push_back(std::move(record));
  }
  return all;
}

}  // namespace

std::optional<Record> Winners::best(const BestKey& key, const Validators& now) {
  const QuietLock lock(layers_.mutex());
  for (Layer& layer : layers_.all()) {
    auto record = lookup(layer, [&] { return best_in(layers_, layer, key, now); });
    if (!record) continue;
    if ((record->validators.runtime != now.runtime || record->launch.empty()) &&
        is_proven(layers_, record->measured.binary_key, key, record->measured.config,
                  now.runtime)) {
      record->validators.runtime = now.runtime;
      record->launch = launch_text(key.problem(), key.device, record->measured.config);
    }
    return record;
  }
  return std::nullopt;
}

Result<std::vector<Record>> Winners::list() { return listed(layers_, kOfSingleSizes); }

Result<std::vector<Record>> Winners::list_kernels() { return listed(layers_, "true"); }

}  // namespace kiln
