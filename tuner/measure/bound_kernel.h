// A loaded kernel bound to one problem: run on operands as callers give them, or prepared for
// timing over operand sets. A kernel that takes a packed B packs it first. Knows no verdicts.
#pragma once

#include <memory>
#include <vector>

#include "kiln/engine.hpp"
#include "runtime/cpu/cpu.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {

class BoundKernel {
 public:
  BoundKernel(HostKernel kernel, const Gemm& gemm, int threads);

  /// One call on plain operands (B not packed). Errors: device (no memory).
  Status run(const Operands& operands);
  /// The same of another problem that this kernel's code covers: other sizes and pitches.
  Status run(const Canonical& problem, const Operands& operands);

  /// Calls to be timed; B is packed here, outside of the timing. Valid while this and `sets` live.
  /// Errors: device (no memory).
  Result<Calls> calls(const OperandSets& sets);

 private:
  using Bytes = std::unique_ptr<std::byte[], void (*)(std::byte*)>;
  Result<Bytes> packed(const KilnArgs& args) const;

  HostKernel kernel_;
  Canonical problem_;
  int threads_;
  std::vector<Bytes> packed_sets_;
};

}  // namespace kiln
