// What roundings a right kernel's sums may lose, for the comparison with the reference. Knows no
// data.
#pragma once

#include "kiln/gemm.hpp"

namespace kiln {

/// Unit roundoff of the arithmetic that a kernel works in between accumulating and storing.
double unit_roundoff(const Gemm& gemm);

/// Roundings of scales that are not powers of two, of 32-bit sums or of floats.
double scaling_roundoffs(const Gemm& gemm);

/// What a sum may lose, as a share of sum |a||b|; scales are part of A and B.
double sum_roundoff(const Gemm& gemm);

}  // namespace kiln
