#include "factor.h"

#include <fmt/format.h>

#include "errors.h"
#include "problem.h"

namespace kiln::python {
namespace {

constexpr const char* kLayouts =
    "adjacent elements along rows or along columns, lines at least a line apart, batches forwards";

}  // namespace

[[noreturn]] void raise_layout(const Array& array) {
  raise_bad_input(fmt::format("{}: kiln reads {}; copy it", described(array), kLayouts));
}

void require_matrix(const Array& array) {
  if (array.dims < 2) raise_bad_input(described(array) + ": must have 2 or 3 dimensions");
}

void store_factor(Matrix& matrix, const Planes& planes, const Array& array) {
  const auto layout = layout_of(planes);
  if (!layout) raise_layout(array);
  matrix.transposed = layout->order == Order::column_major;
  matrix.ld = layout->ld;
  matrix.batch_stride = layout->batch_stride;
}

Array PackedObject::as_array() const {
  return {.name = "b",
          .type = type,
          .dims = dims,
          .sizes = dims == 3 ? std::array{batch, k, n} : std::array{k, n, 0L},
          .strides = dims == 3 ? std::array{k * n, n, 1L} : std::array{n, 1L, 0L}};
}

Packing packing_of(PyObject* object) {
  Packing packing{.gemm = {}, .b = read_array(object, "b", nullptr)};
  require_matrix(packing.b);
  const Planes planes = planes_of(packing.b);
  const DType type = packing.b.type;
  Gemm& gemm = packing.gemm;
  // The unsigned type is paired with the signed one.
  gemm = Gemm::row_major(1, planes.columns, planes.rows, type == DType::u8 ? DType::s8 : type);
  gemm.batch = planes.batch;
  gemm.b.dtype = type;
  store_factor(gemm.b, planes, packing.b);
  return packing;
}

}  // namespace kiln::python
