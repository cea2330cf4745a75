/// @file
/// The whole C++ interface: include this one header.

/// @namespace kiln
/// GEMM kernels, generated, verified, tuned and stored for the machine at hand. Start at Engine.
#pragma once

#include "kiln/dtype.hpp"     // IWYU pragma: export
#include "kiln/engine.hpp"    // IWYU pragma: export
#include "kiln/error.hpp"     // IWYU pragma: export
#include "kiln/gemm.hpp"      // IWYU pragma: export
#include "kiln/host.hpp"      // IWYU pragma: export
#include "kiln/log.hpp"       // IWYU pragma: export
#include "kiln/options.hpp"   // IWYU pragma: export
#include "kiln/quantise.hpp"  // IWYU pragma: export
