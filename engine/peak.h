// The peak that shares refer to: the highest rate ever seen, so no share exceeds 100 %.
#pragma once

#include "kiln/engine.hpp"

namespace kiln {

/// TuneReport::peak_flops of a problem on `threads` threads, raised and stored where `probed` (by a
/// SpeedGate) or `kernel` (any verified result) is more. Operations a second; 0: nothing is known.
double raised_peak(Engine& engine, const Gemm& gemm, int threads, double probed, double kernel);

}  // namespace kiln
