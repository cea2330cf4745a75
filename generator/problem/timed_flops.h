// The work of one timed call, where the problem alone does not say it.
#pragma once

#include "kiln/gemm.hpp"

namespace kiln {

/// Floating-point operations of a call as it is timed: Gemm::flops(), but of masked groups with the
/// rows that are expected (half of m where none are said), and of a list those of products of the
/// usual sizes. What rates are printed from.
double timed_flops(const Gemm& gemm);

}  // namespace kiln
