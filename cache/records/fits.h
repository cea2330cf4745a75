// Fitted models, one for a class of problems on a device.
#pragma once

#include <optional>

#include "cache/record.h"
#include "kiln/error.hpp"
#include "tuner/search/fitted_model.h"

namespace kiln {

class Layers;

class Fits {
 public:
  explicit Fits(Layers& layers) : layers_(layers) {}

  /// The model of the key's class of problems, fitted to measurements.
  std::optional<FittedModel> of(const BestKey& key);
  /// Adds or replaces it. Errors: database.
  Status put(const BestKey& key, const FittedModel& model);

 private:
  Layers& layers_;
};

}  // namespace kiln
