#include "tuner/view.h"

#include <cassert>
#include <cstddef>
#include <type_traits>

#include "kiln/numeric.hpp"

namespace kiln {
namespace {

/// What a 16-bit float is stored as, so that the two formats are types of their own.
struct Half {
  std::uint16_t bits;
  double value() const { return fp16_to_float(bits); }
};
struct Brain {
  std::uint16_t bits;
  double value() const { return bf16_to_float(bits); }
};

template <typename T>
double as_double(T x) {
  if constexpr (std::is_class_v<T>)
    return x.value();
  else
    return static_cast<double>(x);
}

/// Calls `f` with a typed null pointer that says how `dtype` is stored.
template <typename F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp32:
      return f(static_cast<float*>(nullptr));
    case DType::fp64:
      return f(static_cast<double*>(nullptr));
    case DType::fp16:
      return f(static_cast<Half*>(nullptr));
    case DType::bf16:
      return f(static_cast<Brain*>(nullptr));
    case DType::s8:
      return f(static_cast<std::int8_t*>(nullptr));
    case DType::u8:
      return f(static_cast<std::uint8_t*>(nullptr));
    case DType::s32:
      break;
  }
  return f(static_cast<std::int32_t*>(nullptr));
}

template <typename T>
T encode(double value) {
  if constexpr (std::is_same_v<T, Half>)
    return Half{float_to_fp16(static_cast<float>(value))};
  else if constexpr (std::is_same_v<T, Brain>)
    return Brain{float_to_bf16(static_cast<float>(value))};
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(value);
  else
    return saturate<T>(value);
}

}  // namespace

MatrixView view_of(const Gemm& gemm, Operand which, const void* base, std::int64_t batch) {
  const Matrix& stored = matrix(gemm, which);
  const std::int64_t ld = leading_dimension(gemm, which);
  MatrixView view;
  if (base)  // an operand that is never read may be null
    view.data = static_cast<const std::byte*>(base) +
                batch * batch_stride(gemm, which) * size_of(stored.dtype);
  view.dtype = stored.dtype;
  view.rows = which == Operand::b ? gemm.k : gemm.m;
  view.columns = which == Operand::a ? gemm.k : gemm.n;
  // A transposed row-major matrix is walked exactly as a plain column-major one.
  const bool rows_contiguous = (stored.order == Order::row_major) != stored.transposed;
  view.row_stride = rows_contiguous ? ld : 1;
  view.column_stride = rows_contiguous ? 1 : ld;
  return view;
}

void load_block(const MatrixView& view, std::int64_t row, std::int64_t rows, std::int64_t column,
                std::int64_t columns, double* out) {
  assert(row + rows <= view.rows && column + columns <= view.columns);
  with_type(view.dtype, [&](auto* tag) {
    const auto* first =
        static_cast<decltype(tag)>(const_cast<void*>(view.data)) + view.offset(row, column);
    if (view.column_stride == 1) {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
          out[r * columns + c] = as_double(first[r * view.row_stride + c]);
      return;
    }
    for (std::int64_t c = 0; c < columns; ++c)  // along memory, not along `out`
      for (std::int64_t r = 0; r < rows; ++r)
        out[r * columns + c] = as_double(first[view.offset(r, c)]);
  });
}

void store_row(const MatrixView& view, std::int64_t row, std::int64_t column, std::int64_t count,
               const double* values) {
  assert(row < view.rows && column + count <= view.columns);
  with_type(view.dtype, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    T* first = static_cast<T*>(const_cast<void*>(view.data)) + view.offset(row, column);
    for (std::int64_t i = 0; i < count; ++i) first[i * view.column_stride] = encode<T>(values[i]);
  });
}

double round_to(DType dtype, double value) {
  std::uint64_t element = 0;
  store_element(dtype, &element, 0, value);
  return load_element(dtype, &element, 0);
}

}  // namespace kiln
