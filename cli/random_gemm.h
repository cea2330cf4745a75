// Random valid problems for `kiln verify`: every type, layout, padding, batch and epilogue, in
// sizes that end unevenly on every tile. Knows no kernel and no device.
#pragma once

#include "cli/sample.h"
#include "kiln/gemm.hpp"

namespace kiln::cli {

/// A valid problem of at most ~4 million multiply-adds, so that the reference costs milliseconds.
/// The same draws give the same problem.
Gemm random_gemm(Draw& draw);

}  // namespace kiln::cli
