// One matrix of one batch seen as rows and columns, whatever its layout and type; values are read
// as double, less their zero points and times their scales. Knows storage; knows nothing of
// products or checks.
#pragma once

#include <cstdint>

#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// The scale or zero point of element (r, c) is that of block (i, j), with i = (r + row_shift) /
/// rows and j = (c + column_shift) / columns: number `first + i * row_stride + j * column_stride`
/// from `data`.
struct ScaleView {
  const void* data = nullptr;  // null: none
  bool e8m0 = false;           // else of this type
  DType type = DType::fp32;
  std::int64_t first = 0;
  std::int64_t rows = 1, columns = 1;
  std::int64_t row_stride = 0, column_stride = 0;
  std::int64_t row_shift = 0, column_shift = 0;

  ScaleView transposed() const {
    return {data, e8m0,          type,       first,        columns,
            rows, column_stride, row_stride, column_shift, row_shift};
  }
  double at(std::int64_t r, std::int64_t c) const;
};

/// Element (r, c) lies `r / per_row * row_stride + c / per_column * column_stride` elements from
/// `data`: so many neighbouring rows and columns share one.
struct MatrixView {
  const void* data = nullptr;
  DType dtype = DType::fp32;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0, column_stride = 0;
  std::int64_t per_row = 1, per_column = 1;
  ScaleView scale = {}, zero = {};

  MatrixView transposed() const {
    return {data,
            dtype,
            columns,
            rows,
            column_stride,
            row_stride,
            per_column,
            per_row,
            scale.transposed(),
            zero.transposed()};
  }
  bool is_shared() const { return per_row != 1 || per_column != 1; }
  std::int64_t offset(std::int64_t r, std::int64_t c) const {
    if (is_shared()) r /= per_row, c /= per_column;
    return r * row_stride + c * column_stride;
  }
};

/// op(A) [m,k], op(B) [k,n], D or a term of it [m,n] of one batch; `base` is batch 0's first
/// element. A bias has a stride of 0 where its values repeat, and so has an operand or output of an
/// expression along an index that it lacks. With a gate op(B) and the bias have 2n columns.
MatrixView view_of(const Gemm& gemm, Operand which, const void* base, std::int64_t batch);
/// The first element that a part of a problem (rows or a product of a batch, by groups.h) has of an
/// operand or output of the expression, from which view_of() its own problem sees it; null stays.
const void* extra_of_part(const Gemm& whole, Operand which, const void* base,
                          const ProductPart& part);
/// Those columns of a matrix with as many as op(B) has (without scales) that make D's n columns in
/// one of the two products. Without a gate all of them.
MatrixView columns_under(const Gemm& gemm, MatrixView of_product, Factor factor);

/// op(A) or op(B) with its scales and zero points, of which `scales` and `zeros` are batch 0's
/// first. `part`: where the product lies in what has the scales.
MatrixView scaled_view_of(const Gemm& gemm, Operand which, const void* base, const void* scales,
                          const void* zeros, std::int64_t batch, const PartOfK& part = {});

/// Rows [row, row+rows) × columns [column, column+columns), row-major and tight, into `out`.
void load_block(const MatrixView& view, std::int64_t row, std::int64_t rows, std::int64_t column,
                std::int64_t columns, double* out);

/// Writes `count` values from element (row, column) rightwards, rounded to the view's type as
/// store_element does, scales left aside. The view's memory must be writable, no element shared.
void store_row(const MatrixView& view, std::int64_t row, std::int64_t column, std::int64_t count,
               const double* values);

/// What a store of `value` would leave, read back. Never falls as `value` rises.
double round_to(DType dtype, double value);

}  // namespace kiln
