// Draws problems for the CPU: all types that it serves, by generated code or by the reference
// kernel, empty sizes and sizes of 1, every layout, scale and epilogue. Knows no engine.
#pragma once

#include "kiln/gemm.hpp"
#include "tuner/verify/data.h"

namespace kiln::soak {

/// A valid problem with sizes up to `largest`.
Gemm draw_problem(Random& random, std::int64_t largest);

/// A problem of the class of `tuned` with other sizes, tight.
Gemm draw_neighbour(Random& random, Gemm tuned);

}  // namespace kiln::soak
