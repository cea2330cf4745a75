// What shares refer to: the peak, the highest rate ever seen, so that no share of it exceeds 100 %;
// and the roof, from what the machine was seen to reach.
#pragma once

#include <optional>

#include "cache/records/stored_roofline.h"
#include "kiln/engine.hpp"

namespace kiln {

/// Operations a second of one call; 0 where it has no time.
double flops_per_second(const Gemm& gemm, const Timing& timing);

/// TuneReport::peak_flops of a problem on `threads` threads, raised and stored where `probed` (by a
/// SpeedGate) or `kernel` (any verified result) is more. Operations a second; 0: nothing is known.
double raised_peak(Engine& engine, const Gemm& gemm, int threads, double probed, double kernel);

/// The roof of a problem on `threads` threads of the engine's CPU (0: its default), where limits
/// are stored.
std::optional<StoredRoofline> stored_roofline(Engine& engine, const Gemm& gemm, int threads);
/// Keeps the limits that were just measured. Errors: database.
Status keep_limits(Engine& engine, const MachineLimits& limits);
/// Measures and keeps those of `threads` threads of the engine's CPU, unless they are stored, the
/// database will not last, or the machine has little memory left. Takes 0.5 to 2 s and up to 1 GiB:
/// nothing for a call of a library. Errors: database; device (no memory); bad_input (threads).
Status measure_limits_once(Engine& engine, int threads);

}  // namespace kiln
