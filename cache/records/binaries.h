// Linked code, by its own key and by that of its source. Code is read from trusted files alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cache/record.h"
#include "kiln/error.hpp"

namespace kiln {

class Layers;
struct Layer;

class Binaries {
 public:
  explicit Binaries(Layers& layers) : layers_(layers) {}

  /// Trusted code by its own key.
  std::optional<StoredBinary> by_key(const std::string& binary_key);
  /// Newest trusted code of a source; an empty compiler takes any build's.
  std::optional<StoredBinary> of_source(const std::string& code_key, const std::string& compiler);
  /// Errors: database.
  Status put(const StoredBinary& binary);
  /// Marks stored code as bad (it would not load, it gave wrong results): a miss from now on.
  void quarantine(const std::string& key, const std::string& reason);

 private:
  Layers& layers_;
};

/// The code of a row of `binary`, without its image where the layer is not trusted; a row that is
/// found bad is quarantined. For a caller who holds the lock.
std::optional<StoredBinary> code_of(Layers& layers, Layer& layer, std::int64_t binary_id);

}  // namespace kiln
