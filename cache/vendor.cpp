#include "cache/vendor.h"

#include "tuner/stopping.h"

namespace kiln {

std::optional<Measured> preferred_library(const Measured& winner, std::span<const Measured> rows) {
  const Measured* best = nullptr;
  for (const Measured& row : rows)
    if (row.ok() && std::holds_alternative<CudaLibrary>(row.config) &&
        (best == nullptr || row.timing().median_ns < best->timing().median_ns))
      best = &row;
  if (best == nullptr || !winner.ok() ||
      best->timing().median_ns * kMinimumGain > winner.timing().median_ns)
    return std::nullopt;
  return *best;
}

}  // namespace kiln
