// Random valid problems for `kiln verify`: every type, layout, padding, batch and epilogue, in
// sizes that end unevenly on every tile. Knows no kernel.
#pragma once

#include "cli/sample.h"
#include "generator/problem/device_caps.h"
#include "kiln/gemm.hpp"

namespace kiln::cli {

/// A valid problem of at most `most_work` multiply-adds, of types that devices of this kind
/// compute. The same draws give the same problem.
Gemm random_gemm(Draw& draw, const DeviceCaps& caps, std::int64_t most_work);

}  // namespace kiln::cli
