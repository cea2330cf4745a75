// kiln writes, compiles, times and remembers GEMM kernels. Include this one header.
#pragma once

#include "kiln/dtype.hpp"     // IWYU pragma: export
#include "kiln/engine.hpp"    // IWYU pragma: export
#include "kiln/error.hpp"     // IWYU pragma: export
#include "kiln/gemm.hpp"      // IWYU pragma: export
#include "kiln/options.hpp"   // IWYU pragma: export
#include "kiln/quantise.hpp"  // IWYU pragma: export
