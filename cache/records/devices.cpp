// What a machine was seen to reach, and the roofs of products that follow from it.
#include <cmath>

#include "cache/layers/layers.h"
#include "cache/layers/schema.h"
#include "cache/records/stored_roof.h"

namespace kiln {
namespace {

/// No machine reads so many bytes a second, or reaches so many operations (kMostFlops).
bool plausible(const MachineLimits& limits) {
  bool all = limits.fp32_flops > 0;
  for_each_limit(limits,
                 [&](std::string_view, double value) { all &= value >= 0 && value <= kMostFlops; });
  return all;
}

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

Status Store::put_limits(const MachineLimits& limits) {
  if (!plausible(limits))
    return fail(ErrorCode::bad_input,
                fmt::format("limits: each must be 0 to {}, fp32_flops = {} more than 0", kMostFlops,
                            limits.fp32_flops));
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    SQLite::Statement row(
        db, fmt::format("INSERT OR REPLACE INTO limits (device_id, {}, created) VALUES "
                        "(?, ?, ?, ?, ?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
                        limit_columns()));
    row.bind(1, device_row(db, limits.device));
    int at = 2;
    for_each_limit(limits, [&](std::string_view, double value) { row.bind(at++, value); });
    row.exec();
    return {};
  });
}

std::optional<MachineLimits> Store::limits(const DeviceCaps& device) {
  const QuietLock lock(impl_->mutex);
  std::optional<MachineLimits> newest;
  for (Layer& layer : impl_->layers) {
    auto found = lookup(layer, [&]() -> std::optional<MachineLimits> {
      SQLite::Statement row(
          *layer.db,
          "SELECT id FROM limits WHERE device_id = (SELECT id FROM device WHERE key = ?)");
      row.bind(1, key_text(device));
      return row.executeStep() ? read_limits(*layer.db, row.getColumn(0).getInt64()) : std::nullopt;
    });
    if (found && (!newest || found->measured > newest->measured)) newest = std::move(found);
  }
  if (newest) newest->device = device;
  return newest;
}

std::optional<StoredRoof> stored_roof(Store& store, const DeviceCaps& device, const Gemm& gemm) {
  if (device.vendor != Vendor::cpu) return std::nullopt;
  auto limits = store.limits(device);
  if (!limits) return std::nullopt;
  // Kernels raise what is stored as the peak of a type, and may pass the probe.
  if (const auto member = peak_member(gemm.a.dtype))
    (*limits).*member = std::max((*limits).*member, store.peak(device, gemm.a.dtype));
  const Roof found = roof(gemm, *limits, peak_for(gemm, *limits));
  return found.ns > 0 ? std::optional(StoredRoof{found, limits->measured}) : std::nullopt;
}

}  // namespace kiln
