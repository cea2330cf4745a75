// What searches measured, and how far they searched: every row, winners, losers and failures, each
// without its code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cache/record.h"
#include "kiln/error.hpp"
#include "tuner/search/fitted_model.h"

namespace kiln {

class Layers;

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

class Measurements {
 public:
  explicit Measurements(Layers& layers) : layers_(layers) {}

  /// Adds or replaces one row. Errors: database, naming the file (full disk, read only, busy).
  Status put(const BestKey& key, const Validators& made_by, const Measured& measured);
  /// Says how far this key's space has been searched; replaces what was said before.
  Status put_search(const BestKey& key, const Validators& made_by, const SearchExtent& searched);
  /// Adds measurements whose key and config are not in the user's own file, as evidence: without
  /// code, none a winner. Returns how many.
  Result<std::int64_t> add_evidence(const std::vector<StoredMeasurement>& rows);

  /// Every row of this key, failures too, oldest first.
  std::vector<Measured> known(const BestKey& key, const Validators& now);
  /// Of those, winners and the libraries that were raced, of any templates, newest first.
  std::vector<Measured> winners_and_libraries(const BestKey& key);
  /// Every time measured on the same device under the same policy for problems of the same class,
  /// newest first, of any templates.
  std::vector<TimedConfig> timed_like(const BestKey& key);
  /// Every measurement that the filter takes, the user's own file first, in the order in which they
  /// were made. Rows that cannot be read are left out. `visit` must not call the store. Errors:
  /// database.
  Status each(const MeasurementFilter& filter, const MeasurementVisitor& visit);

 private:
  Layers& layers_;
};

}  // namespace kiln
