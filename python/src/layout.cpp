#include "layout.h"

namespace kiln::python {

Planes planes_of(const Array& array) {
  const auto rows = static_cast<std::size_t>(array.dims - 2), columns = rows + 1;
  Planes planes{.rows = array.sizes[rows],
                .columns = array.sizes[columns],
                .row_stride = array.strides[rows],
                .column_stride = array.strides[columns]};
  if (array.dims == 3) {
    planes.batch = array.sizes[0];
    planes.batch_stride = array.strides[0];
  }
  return planes;
}

std::optional<Planes> stacked(const Planes& planes) {
  Planes one = planes;
  one.batch = 1;
  one.batch_stride = 0;
  if (planes.batch == 1) return one;
  one.rows = planes.batch * planes.rows;
  if (planes.rows == 1)
    one.row_stride = planes.batch_stride;
  else if (planes.batch_stride != planes.rows * planes.row_stride)
    return std::nullopt;
  return one;
}

std::optional<Layout> layout_in(const Planes& planes, Order order) {
  const bool by_rows = order == Order::row_major;
  const std::int64_t length = by_rows ? planes.columns : planes.rows;
  const std::int64_t lines = by_rows ? planes.rows : planes.columns;
  const std::int64_t within = by_rows ? planes.column_stride : planes.row_stride;
  const std::int64_t between = by_rows ? planes.row_stride : planes.column_stride;
  // Strides mean nothing where there is no element, or only one of a kind.
  if (length == 0 || lines == 0) return Layout{.order = order};
  if (length > 1 && within != 1) return std::nullopt;
  if (lines > 1 && between < length) return std::nullopt;
  const std::int64_t ld = lines == 1 ? length : between;
  if (planes.batch > 1 && planes.batch_stride <= 0) return std::nullopt;
  const bool behind = planes.batch <= 1 || planes.batch_stride == ld * lines;
  return Layout{order, ld == length ? 0 : ld, behind ? 0 : planes.batch_stride};
}

std::optional<Layout> layout_of(const Planes& planes) {
  if (const auto rows = layout_in(planes, Order::row_major)) return rows;
  return layout_in(planes, Order::column_major);
}

}  // namespace kiln::python
