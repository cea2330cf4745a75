// Operands of one call where its device reads them, and whether what it wrote is right. Checked on
// the host, so that no compiler is needed. Knows no clock and no kernel.
#pragma once

#include <vector>

#include "kiln/engine.hpp"
#include "runtime/gpu/device.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {

class CallOperands {
 public:
  /// `gpu`: null for this machine's CPU. D is poisoned. Errors: device (no memory), bad_input
  /// (threads, which a GPU does without).
  static Result<CallOperands> make(gpu::SharedDevice gpu, const Gemm& gemm, int threads);
  const Operands& operands() const { return operands_; }
  /// Until a GPU is done; nothing on a CPU. Errors: device.
  Status wait() const;
  /// Waits for the device and judges what it wrote. Errors: device.
  Result<bool> right();

 private:
  CallOperands(gpu::SharedDevice gpu, const Gemm& gemm, OperandSets sets)
      : gpu_(std::move(gpu)), gemm_(gemm), sets_(std::move(sets)) {}
  Result<void*> copied(const void* from, std::int64_t bytes);
  Status upload();

  gpu::SharedDevice gpu_;
  Gemm gemm_;
  OperandSets sets_;
  std::vector<gpu::DeviceBuffer> copies_;  // on a GPU
  std::vector<ListEntry> list_;            // on a GPU, of a list of products
  Operands operands_;
};

}  // namespace kiln
