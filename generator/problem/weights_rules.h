// What validate() demands of a B that holds weights, and what its scales are beside A. Knows no
// other rules of a problem.
#pragma once

#include "kiln/gemm.hpp"

namespace kiln {

/// The scales and zero points of B, and that A has none. `gemm` has weights.
Status check_weights(const Gemm& gemm);

/// Whether A's type has the range of the scales of B, whatever they are: fp16 has that of its own
/// scales alone. `gemm` has weights.
bool has_range_of_scales(const Gemm& gemm);

}  // namespace kiln
