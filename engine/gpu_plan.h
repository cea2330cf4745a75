// A problem bound to its kernel on a GPU: one call searches two short lists and launches. The
// warm path takes no lock, allocates nothing and waits for nothing, so it can be captured into a
// graph. Knows no database and no operand rules.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "engine/gpu_resources.h"
#include "generator/space/space.h"
#include "kiln/engine.hpp"
#include "runtime/cuda/cublaslt.h"
#include "runtime/gpu/kernel.h"

namespace kiln {

/// Thread-safe.
class GpuPlan {
 public:
  using Shared = std::shared_ptr<const GpuResources>;

  /// Errors: device (the code does not fit the device).
  static Result<std::unique_ptr<GpuPlan>> make(Shared shared, gpu::SharedModule module,
                                               const Problem& problem, const DeviceCaps& caps,
                                               const Config& config);
  /// The vendor's library instead of code of ours.
  static std::unique_ptr<GpuPlan> of_library(Shared shared, const Problem& problem,
                                             cuda::CublasLt library, int choice);
  ~GpuPlan();

  /// Puts one call into `operands.stream`. Errors: bad_input (a workspace too small), device.
  Status run(const Operands& operands) const;
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  std::int64_t zeroed_bytes() const { return zeroed_bytes_; }
  /// What run() hands to the kernel. A list's entries are valid until this thread's next call.
  KilnGpuArgs arguments(const Operands& operands, void* workspace) const;
  /// Null where the vendor's library runs.
  const gpu::GpuKernel* kernel() const { return kernel_ ? &*kernel_ : nullptr; }

 private:
  /// The tensor maps of one set of addresses.
  struct Maps {
    std::array<const void*, gpu::kMostMaps> addresses;
    KilnTensorMap maps[gpu::kMostMaps];
  };
  static constexpr std::size_t kMapSlots = 16;

  GpuPlan(Shared shared, const Problem& problem);
  Status launch(const KilnGpuArgs& args, gpu::Stream stream) const;
  Result<void*> workspace(const Operands& operands, gpu::Stream stream) const;

  const Shared shared_;
  KilnGpuArgs args_;  // of every call, but for operands, alpha and beta
  Problem problem_;
  std::optional<gpu::GpuKernel> kernel_;
  std::optional<cuda::CublasLt> library_;
  int choice_ = 0;
  std::int64_t workspace_bytes_ = 0, zeroed_bytes_ = 0;
  mutable std::atomic<const Maps*> maps_[kMapSlots] = {};
};

}  // namespace kiln
