#include "engine/vendor.h"

#include "tuner/search/stopping.h"

namespace kiln {

std::optional<Measured> preferred_library(const Measured& winner, std::span<const Measured> rows,
                                          int version) {
  const Measured* best = nullptr;
  for (const Measured& row : rows) {
    const auto* library = std::get_if<CudaLibrary>(&row.config);
    if (row.ok() && library != nullptr && library->version != 0 && library->version == version &&
        (best == nullptr || row.timing().median_ns < best->timing().median_ns))
      best = &row;
  }
  if (best == nullptr || !winner.ok() ||
      best->timing().median_ns * kMinimumGain > winner.timing().median_ns)
    return std::nullopt;
  return *best;
}

}  // namespace kiln
