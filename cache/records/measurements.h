// Rows of `measurement` as values, for tools that look at many: lists, comparisons, other formats.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cache/store.h"

namespace kiln {

struct StoredMeasurement {
  BestKey key;
  Validators validators;
  Measured measured;
  bool winner = false;
  std::string created;             // ISO 8601 UTC
  std::filesystem::path database;  // where it was found
};

/// Which rows; every condition holds.
struct MeasurementFilter {
  std::string device = {};        // the fingerprint contains this
  std::string runtime = {};       // the runtime's text contains this
  std::vector<Gemm> shapes = {};  // one of these; where it promises no alignment, with any
  bool winners = false;           // winners only

  bool takes(const Gemm& gemm) const;
};

using MeasurementVisitor = std::function<void(const StoredMeasurement&)>;

}  // namespace kiln
