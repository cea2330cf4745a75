// What validate() demands of a B that holds weights. Knows no other rules of a problem.
#pragma once

#include "kiln/gemm.hpp"

namespace kiln {

/// The scales and zero points of B, and that A has none. `gemm` has weights.
Status check_weights(const Gemm& gemm);

}  // namespace kiln
