#include "engine/vendor.h"

#include <algorithm>

#include "generator/families/cpu/library/config.h"
#include "generator/families/cuda/library/config.h"
#include "runtime/cpu/blas_library.h"
#include "runtime/cuda/cublaslt.h"
#include "tuner/search/stopping.h"

namespace kiln {
namespace {

bool is_loaded(const Config& config) {
  if (const auto blas = config.if_is<BlasLibrary>()) {
    const auto& loaded = system_blas();
    return loaded != nullptr && loaded->identity == *blas;
  }
  const auto cublaslt = config.if_is<CudaLibrary>();
  return cublaslt && cublaslt->version != 0 && cuda::cublaslt_version_number() == cublaslt->version;
}

}  // namespace

std::optional<Measured> preferred_library(const Measured& winner, std::span<const Measured> rows,
                                          int version) {
  const Measured* best = nullptr;
  for (const Measured& row : rows) {
    const auto library = row.config.if_is<CudaLibrary>();
    if (row.ok() && library && library->version != 0 && library->version == version &&
        (best == nullptr || row.timing().median_ns < best->timing().median_ns))
      best = &row;
  }
  if (best == nullptr || !winner.ok() ||
      best->timing().median_ns * kMinimumGain > winner.timing().median_ns)
    return std::nullopt;
  return *best;
}

std::vector<RacedLibrary> raced_libraries(std::span<const Measured> rows, std::string_view winner) {
  const auto won = std::ranges::find_if(rows, [&](const Measured& row) {
    return row.ok() && row.verified && text(row.config) == winner;
  });
  std::vector<RacedLibrary> raced;
  if (won == rows.end() || !(won->timing().median_ns > 0)) return raced;
  for (const Measured& row : rows) {
    if (!row.ok() || !is_library(row.config)) continue;
    const bool newer_seen =
        std::ranges::find(raced, row.config, &RacedLibrary::config) != raced.end();
    if (!newer_seen)
      raced.push_back({row.config, {won->timing().median_ns, row.timing().median_ns}});
  }
  return raced;
}

std::optional<LibraryRace> race_with_loaded(std::span<const RacedLibrary> raced) {
  std::optional<LibraryRace> fastest;
  for (const RacedLibrary& library : raced)
    if (is_loaded(library.config) && (!fastest || library.race.library_ns < fastest->library_ns))
      fastest = library.race;
  return fastest;
}

}  // namespace kiln
