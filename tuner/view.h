// One matrix of one batch seen as rows and columns, whatever its layout and type; values are read
// as double. Knows storage; knows nothing of products or checks.
#pragma once

#include <cstdint>

#include "generator/extent.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// Element (r, c) lies `r * row_stride + c * column_stride` elements from `data`.
struct MatrixView {
  const void* data = nullptr;
  DType dtype = DType::fp32;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0, column_stride = 0;

  MatrixView transposed() const { return {data, dtype, columns, rows, column_stride, row_stride}; }
  std::int64_t offset(std::int64_t r, std::int64_t c) const {
    return r * row_stride + c * column_stride;
  }
};

/// op(A) [m,k], op(B) [k,n], C or D [m,n] of one batch; `base` is batch 0's first element. A
/// residual is stored as D is: pass Operand::d.
MatrixView view_of(const Gemm& gemm, Operand which, const void* base, std::int64_t batch);

/// Rows [row, row+rows) × columns [column, column+columns), row-major and tight, into `out`.
void load_block(const MatrixView& view, std::int64_t row, std::int64_t rows, std::int64_t column,
                std::int64_t columns, double* out);

/// Writes `count` values from element (row, column) rightwards, rounded to the view's type as
/// store_element does. The view's memory must be writable.
void store_row(const MatrixView& view, std::int64_t row, std::int64_t column, std::int64_t count,
               const double* values);

/// What a store of `value` would leave, read back. Never falls as `value` rises.
double round_to(DType dtype, double value);

}  // namespace kiln
