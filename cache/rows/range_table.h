// A tuned range as stored: which kernel serves which sizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/record.h"
#include "generator/space/space.h"
#include "kiln/range.hpp"

namespace kiln {

/// Neighbouring sizes that run the same kernel.
struct RangeCell {
  std::int64_t last = 0;      // the largest of them
  std::int64_t tuned_at = 0;  // the size whose winner the kernel is
  Config config;              // its config
  double expected_ns = 0;     // of a call of the largest
  auto operator<=>(const RangeCell&) const = default;
};

/// From size to kernel. Cells are in the order of their sizes and leave none out.
struct RangeTable {
  std::vector<RangeCell> cells;

  /// The cell of a size of the range.
  const RangeCell& at(std::int64_t size) const;
  /// How many kernels its cells name; configs that share a binary are one.
  std::size_t kernels() const;
  /// One line a cell: last, tuned_at, expected nanoseconds, config.
  std::string text() const;
  /// Nothing where the text is not that of a table of this range.
  static std::optional<RangeTable> parse(std::string_view text, const GemmRange& range);
};

/// A tuned range as stored.
struct RangeRecord {
  BestKey key;  // of the problem of the largest size
  GemmRange range;
  RangeTable table;
  std::string created;             // ISO 8601 UTC
  std::filesystem::path database;  // where it was found
};

}  // namespace kiln
