// Which of kiln's layouts the strides of an array are. Knows no types and no operands.
#pragma once

#include <cstdint>
#include <optional>

#include "array.h"
#include "kiln/gemm.hpp"

namespace kiln::python {

/// A matrix, or a batch of them, of any strides.
struct Planes {
  std::int64_t batch = 1, batch_stride = 0;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0, column_stride = 0;

  /// Whether all products of a batch use the same matrix.
  bool shared() const { return batch == 1 || batch_stride == 0; }
};

/// How a matrix is stored; sizes that are tight are 0, so that equal layouts have one spelling.
struct Layout {
  Order order = Order::row_major;
  std::int64_t ld = 0, batch_stride = 0;

  bool operator==(const Layout&) const = default;
};

/// The last two dimensions of an array, and the batch before them.
Planes planes_of(const Array& array);

/// The batch as more rows of one matrix; nothing where the matrices do not lie so.
std::optional<Planes> stacked(const Planes& planes);

/// Nothing where the strides are not a layout of this order.
std::optional<Layout> layout_in(const Planes& planes, Order order);
/// Row-major if it can be.
std::optional<Layout> layout_of(const Planes& planes);

}  // namespace kiln::python
