// A loaded kernel bound to one problem: run on operands as callers give them, or prepared for
// timing over operand sets. Where it takes a packed B, that is packed first. Knows no verdicts.
#pragma once

#include <optional>
#include <vector>

#include "generator/space/config.h"
#include "kiln/engine.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/packed_b.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {

class BoundKernel {
 public:
  /// On the device's compute_units threads.
  BoundKernel(HostKernel kernel, const Config& config, const Gemm& gemm, const DeviceCaps& device);

  /// One call on plain operands (B not packed). Errors: device (no memory).
  Status run(const Operands& operands);
  /// The same of another problem that this kernel's code covers: other sizes and pitches.
  Status run(const Problem& problem, const Operands& operands);

  /// Calls to be timed; B is packed here, outside of the timing. Valid while this and `sets` live.
  /// Errors: device (no memory).
  Result<Calls> calls(const OperandSets& sets);

 private:
  HostKernel kernel_;
  KilnDivision division_;
  Problem problem_;
  int threads_;
  std::optional<PackedLayout> layout_;  // of problems with a packed B
  std::vector<PackedCopy> packed_sets_;
};

}  // namespace kiln
