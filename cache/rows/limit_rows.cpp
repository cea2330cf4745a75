// Rows of what a machine was seen to reach.
#include <fmt/format.h>

#include <string>

#include "cache/rows/rows.h"

namespace kiln {
namespace {

/// "fp32_flops, fp64_flops, …"
std::string limit_columns() {
  std::string names;
  const MachineLimits any;
  for_each_limit(any, [&](std::string_view name, double) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  });
  return names;
}

}  // namespace

bool plausible(const MachineLimits& limits) {
  bool all = limits.fp32_flops > 0;
  for_each_limit(limits,
                 [&](std::string_view, double value) { all &= value >= 0 && value <= kMostFlops; });
  return all;
}

std::optional<MachineLimits> read_limits(SQLite::Database& db, std::int64_t id) {
  SQLite::Statement row(
      db, fmt::format("SELECT {}, created FROM limits WHERE id = ?", limit_columns()));
  row.bind(1, id);
  if (!row.executeStep()) return std::nullopt;
  MachineLimits limits;
  int at = 0;
  for_each_limit(limits,
                 [&](std::string_view, double& value) { value = row.getColumn(at++).getDouble(); });
  limits.measured = text_of(row.getColumn(at));
  return plausible(limits) ? std::optional(std::move(limits)) : std::nullopt;
}

void put_limits_row(SQLite::Database& db, const MachineLimits& limits) {
  SQLite::Statement row(
      db, fmt::format("INSERT OR REPLACE INTO limits (device_id, {}, created) VALUES "
                      "(?, ?, ?, ?, ?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
                      limit_columns()));
  row.bind(1, device_row(db, limits.device));
  int at = 2;
  for_each_limit(limits, [&](std::string_view, double value) { row.bind(at++, value); });
  row.exec();
}

}  // namespace kiln
