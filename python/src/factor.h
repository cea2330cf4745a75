// How kiln stores the factors of a product, from arrays of Python: what both matmul() and PackedB
// read. Knows no epilogue.
#pragma once

#include "array.h"
#include "kiln/gemm.hpp"
#include "layout.h"

namespace kiln::python {

/// Throws kiln.BadInput: strides that kiln cannot read.
[[noreturn]] void raise_layout(const Array& array);

/// Throws kiln.BadInput where there are fewer than two dimensions.
void require_matrix(const Array& array);

/// How a factor is stored, in the spelling of shape lines: row-major, or its transpose is.
void store_factor(Matrix& matrix, const Planes& planes, const Array& array);

}  // namespace kiln::python
