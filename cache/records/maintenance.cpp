// What the files hold, in lists, numbers and checks.
#include <fmt/format.h>

#include "cache/layers/layers.h"
#include "cache/records/row_checker.h"
#include "cache/rows/range_kernels.h"

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
  RowsById<DeviceCaps> devices(*layer.db);
  RowsById<Gemm> problems(*layer.db);
  RowsById<Validators> toolchains(*layer.db);
  while (row.executeStep()) {
    auto measured = read_measured(row);
    auto device = devices.read(row.getColumn(kNext).getInt64());
    auto gemm = problems.read(row.getColumn(kNext + 1).getInt64());
    auto made_by = toolchains.read(row.getColumn(kNext + 2).getInt64());
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
  const QuietLock lock(store.mutex);
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
  const QuietLock lock(impl_->mutex);
  std::vector<StoreStats> all;
  for (Layer& layer : impl_->layers) {
    auto stats = guarded(layer.path, [&]() -> Result<StoreStats> { return stats_of(layer); });
    if (!stats) return tl::unexpected(stats.error());
    all.push_back(std::move(*stats));
  }
  return all;
}

Result<CheckReport> Store::check(bool repair_too) {
  const QuietLock lock(impl_->mutex);
  if (repair_too) {
    if (Status ok = impl_->writable(); !ok) return tl::unexpected(ok.error());
  }
  CheckReport report;
  for (Layer& layer : impl_->layers) {
    const Status done = guarded(layer.path, [&]() -> Status {
      const std::vector<BadRow> bad = check_rows(layer, report);
      if (repair_too && &layer == &impl_->own()) report.repaired = remove_rows(layer, bad);
      return {};
    });
    if (!done) return tl::unexpected(done.error());
  }
  return report;
}

}  // namespace kiln
