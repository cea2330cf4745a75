#include "cache/records/devices.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <algorithm>

#include "cache/keys.h"
#include "cache/layers/layers.h"
#include "cache/rows/rows.h"

namespace kiln {

bool Devices::knows(const DeviceCaps& device) {
  const QuietLock lock(layers_.mutex());
  return layers_.in_trusted([&](Layer& layer) {
    SQLite::Statement row(*layer.db, "SELECT 1 FROM device WHERE key = ?");
    row.bind(1, key_text(device));
    return row.executeStep();
  });
}

std::vector<DeviceCaps> Devices::list() {
  const QuietLock lock(layers_.mutex());
  std::vector<DeviceCaps> all;
  for (Layer& layer : layers_.all()) {
    if (!layer.trusted) continue;
    lookup(layer, [&] {
      SQLite::Statement row(*layer.db, "SELECT id FROM device ORDER BY id");
      while (row.executeStep())
        if (auto device = read_device(*layer.db, row.getColumn(0).getInt64()))
          if (std::ranges::find(all, *device) == all.end()) all.push_back(std::move(*device));
      return true;
    });
  }
  return all;
}

double Devices::peak(const DeviceCaps& device, DType type) {
  const QuietLock lock(layers_.mutex());
  double most = 0;
  for (Layer& layer : layers_.all()) {
    const auto flops = lookup(layer, [&]() -> std::optional<double> {
      SQLite::Statement row(*layer.db,
                            "SELECT id FROM peak WHERE device_id = (SELECT id FROM device WHERE "
                            "key = ?) AND dtype = ?");
      row.bind(1, key_text(device));
      row.bind(2, std::get<std::string>(to_value(type)));
      if (!row.executeStep()) return std::nullopt;
      return read_peak(*layer.db, row.getColumn(0).getInt64());
    });
    most = std::max(most, flops.value_or(0));
  }
  return most;
}

Status Devices::raise_peak(const DeviceCaps& device, DType type, double flops) {
  if (!(flops > 0) || flops > kMostFlops)
    return fail(ErrorCode::bad_input,
                fmt::format("flops = {}: must be more than 0 and at most {}", flops, kMostFlops));
  return layers_.write([&](SQLite::Database& db) -> Status {
    raise_peak_row(db, device, type, flops);
    return {};
  });
}

std::optional<MachineLimits> Devices::limits(const DeviceCaps& device) {
  const QuietLock lock(layers_.mutex());
  std::optional<MachineLimits> newest;
  for (Layer& layer : layers_.all()) {
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

Status Devices::put_limits(const MachineLimits& limits) {
  if (!plausible(limits))
    return fail(ErrorCode::bad_input,
                fmt::format("limits: each must be 0 to {}, fp32_flops = {} more than 0", kMostFlops,
                            limits.fp32_flops));
  return layers_.write([&](SQLite::Database& db) -> Status {
    put_limits_row(db, limits);
    return {};
  });
}

}  // namespace kiln
