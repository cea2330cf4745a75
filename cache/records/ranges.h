// Tables of tuned ranges: written, looked up, listed.
#pragma once

#include <vector>

#include "cache/record.h"
#include "cache/rows/range_table.h"
#include "kiln/error.hpp"

namespace kiln {

class Layers;

class Ranges {
 public:
  explicit Ranges(Layers& layers) : layers_(layers) {}

  /// Adds or replaces a range's table with rows for its kernels (cache/rows/range_kernels.h), which
  /// are stored and verified at the sizes that its cells name; the key's problem is any of the
  /// range.
  Status put(const BestKey& key, const GemmRange& range, const RangeTable& table);
  /// Ranges on the key's device under its policy and class of determinism, the user's own first.
  std::vector<RangeRecord> of(const BestKey& key);
  /// Those of problems that differ from the key's in `size` alone.
  std::vector<RangeRecord> like(const BestKey& key, Size size);
  /// Ranges of every layer; the user's own first.
  Result<std::vector<RangeRecord>> list();

 private:
  Layers& layers_;
};

}  // namespace kiln
