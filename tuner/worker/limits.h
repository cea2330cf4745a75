// What a worker may take, before it is asked: seconds of each kind of request, and memory. A limit
// is to end a hang and to refuse the impossible; a busy machine must stay far below it. Knows no
// search.
#pragma once

#include "generator/problem/device_caps.h"
#include "kiln/error.hpp"
#include "kiln/gemm.hpp"

namespace kiln {

/// From its start to the first answer: the dynamic linker's work and a page of memory.
inline constexpr double kWorkerStartSeconds = 30;

/// To make the operands of a problem; on a GPU for the driver's start and the compile of the
/// checking kernels too. On the CPU 10 s and what 50 MB/s take (one thread of a busy
/// machine was seen to fill 330 to 680 MB/s), at most half an hour.
double set_up_seconds(const Gemm& gemm, const DeviceCaps& device);

/// To load, verify and time one candidate: three slow calls to be dropped or a score of fast ones,
/// and a check. `call_ns` is what a call took before; 0: not known.
double candidate_seconds(const Gemm& gemm, const DeviceCaps& device, double call_ns);

/// A candidate gets this long even when the budget is spent: a timeout must mean a hang, not a
/// machine that is busy.
inline constexpr double kLeastCandidateSeconds = 2.0;

/// By what all of these are multiplied: $KILN_PATIENCE, a number of 1 or more (emulated devices and
/// virtual machines that are slower than any real one), else 1.
double patience();

/// Whether tuning finds memory for its operand sets, the inputs of a check and a reference of D.
/// Errors: device, with both sizes.
Status room_to_tune(const Gemm& gemm, const DeviceCaps& device);

}  // namespace kiln
