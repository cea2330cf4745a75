// A plan as the clock and the checker of a GPU call it.
#pragma once

#include "generator/problem/operands.h"
#include "kiln/engine.hpp"
#include "tuner/verify/gpu_check.h"

namespace kiln {

/// `swapped`: the canonical problem's A is the plan's B.
inline RunOnGpu run_on_gpu(const Plan& plan, bool swapped) {
  return [plan, swapped](const KilnGpuArgs& args, gpu::Stream stream) {
    Operands operands{.stream = stream};
    bind_operands(operands, args, swapped);
    return plan.run(operands);
  };
}

}  // namespace kiln
