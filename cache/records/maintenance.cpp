// What the files hold, in numbers and checks.
#include "cache/records/maintenance.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include "cache/layers/layers.h"
#include "cache/records/row_checker.h"
#include "cache/rows/range_kernels.h"
#include "cache/rows/rows.h"

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

}  // namespace

Result<std::vector<StoreStats>> Maintenance::stats() {
  const QuietLock lock(layers_.mutex());
  std::vector<StoreStats> all;
  for (Layer& layer : layers_.all()) {
    auto stats = guarded(layer.path, [&]() -> Result<StoreStats> { return stats_of(layer); });
    if (!stats) return tl::unexpected(stats.error());
    all.push_back(std::move(*stats));
  }
  return all;
}

Result<CheckReport> Maintenance::check(bool repair_too) {
  const QuietLock lock(layers_.mutex());
  if (repair_too) {
    if (Status ok = layers_.writable(); !ok) return tl::unexpected(ok.error());
  }
  CheckReport report;
  for (Layer& layer : layers_.all()) {
    const Status done = guarded(layer.path, [&]() -> Status {
      const std::vector<BadRow> bad = check_rows(layer, report);
      if (repair_too && &layer == &layers_.own()) report.repaired = remove_rows(layer, bad);
      return {};
    });
    if (!done) return tl::unexpected(done.error());
  }
  return report;
}

}  // namespace kiln
