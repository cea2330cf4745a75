// How a packed B lies in memory. It follows from the types and the device alone: every kernel that
// takes a packed B on a device reads this layout, whatever its config, m or number of threads, and
// so does the reference kernel (runtime/cpu/packed_b.h writes it). Pure.
#pragma once

#include <cstdint>
#include <string>

#include "generator/problem/device_caps.h"
#include "generator/problem/problem.h"

namespace kiln {

/// What an element became.
enum class PackedAs : std::uint8_t { itself, f32, s16, s32 };

/// Panels of `lanes` columns, one behind the other. A panel has a row for each `group` of k, and a
/// row has `group` elements of each column. Elements beyond n or k are zeros. Behind a panel of
/// 64 KiB and more that fills whole pages, or nearly, a quarter of a page is left free: tiles read
/// several panels side by side, which should not contend for the same parts of memory and caches
/// (templates/cpu/common/panels.h has the same rule).
struct PackedLayout {
  PackedAs as = PackedAs::itself;
  int element_bytes = 1;
  int lanes = 1;
  int group = 1;
  int step = 1;  // a panel's rows are padded to a multiple of this
  /// Behind its rows a panel has the sum of each of its columns, as s32: what a kernel needs that
  /// multiplies unsigned by signed bytes.
  bool column_sums = false;
  auto operator<=>(const PackedLayout&) const = default;

  std::int64_t rows(std::int64_t k) const;
  std::int64_t row_bytes() const { return std::int64_t{lanes} * group * element_bytes; }
  std::int64_t panels(std::int64_t n) const;
  /// From one panel to the next, column sums and what is left free included.
  std::int64_t panel_bytes(std::int64_t k) const;
  /// Of one product of a batch.
  std::int64_t bytes(std::int64_t n, std::int64_t k) const { return panels(n) * panel_bytes(k); }
};

/// Panels as wide as a vector of the device's best instruction for the types. Where there is none,
/// the columns themselves, one behind the other: only the reference kernel reads those.
PackedLayout packed_layout(const Problem& problem, const DeviceCaps& device);

/// "as=f32;bytes=4;lanes=16;group=1;step=1;sums=0;pages=staggered".
std::string text(const PackedLayout& layout);

}  // namespace kiln
