// What a product must move at least, which with its operations says what limits it. Pure.
#pragma once

#include "kiln/gemm.hpp"

namespace kiln {

/// Bytes of A, B, D and the terms, each read or written once. Races run with beta = 0: C is not
/// read.
double least_bytes(const Gemm& gemm);
/// Operations for each of these bytes: the arithmetic intensity; 0 for an empty problem.
double intensity(const Gemm& gemm);

}  // namespace kiln
