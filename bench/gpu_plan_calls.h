// A plan as the clock and the checker of a GPU call it.
#pragma once

#include "generator/problem/canonical.h"
#include "kiln/engine.hpp"
#include "tuner/verify/gpu_check.h"

namespace kiln {

/// `swapped`: the canonical problem's A is the plan's B.
inline RunOnGpu run_on_gpu(const Plan& plan, bool swapped) {
  return [plan, swapped](const KilnGpuArgs& args, cuda::Stream stream) {
    return plan.run({.a = swapped ? args.b : args.a,
                     .b = swapped ? args.a : args.b,
                     .c = args.c,
                     .d = args.d,
                     .bias = args.bias,
                     .residual = args.residual,
                     .alpha = args.alpha,
                     .beta = args.beta,
                     .stream = stream,
                     .scale_a = swapped ? args.scale_b : args.scale_a,
                     .scale_b = swapped ? args.scale_a : args.scale_b});
  };
}

}  // namespace kiln
