// Random valid problems: for `kiln verify` every type, layout, padding, batch and epilogue, in
// sizes that end unevenly on every tile; for `kiln bench` what libraries compute too. Knows no
// kernel.
#pragma once

#include "cli/commands/sample.h"
#include "generator/problem/device_caps.h"
#include "kiln/gemm.hpp"

namespace kiln::cli {

/// A valid problem of at most `most_work` multiply-adds, of types that devices of this kind
/// compute. The same draws give the same problem.
Gemm random_gemm(Draw& draw, const DeviceCaps& caps, std::int64_t most_work);

/// A tight row-major product without epilogue, either operand transposed or not, each size
/// log-uniform from 1 to 8192, of at most `most_work` multiply-adds.
Gemm random_product(Draw& draw, const DeviceCaps& caps, std::int64_t most_work);

}  // namespace kiln::cli
