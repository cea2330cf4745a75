// One config's code on the GPU, bound to a problem and given a workspace: something to be checked
// and timed. Knows the generator's launch description; knows no verdicts.
#pragma once

#include <span>

#include "generator/space/space.h"
#include "tuner/verify/gpu_check.h"

namespace kiln {

/// Move-only. Runs must not outlive it.
class GpuCandidate {
 public:
  /// Errors: device (no cubin, a launch that the device refuses, no memory).
  static Result<GpuCandidate> load(const GpuTools& tools, std::span<const std::byte> image,
                                   const Gemm& gemm, const DeviceCaps& caps, const Config& config);
  /// The same code on another problem that it covers.
  Result<GpuCandidate> on(const Gemm& gemm) const;

  RunOnGpu run() const;

 private:
  GpuCandidate(const GpuTools& tools, gpu::SharedModule module, DeviceCaps caps, Config config,
               gpu::GpuKernel kernel, gpu::DeviceBuffer workspace)
      : tools_(&tools),
        module_(std::move(module)),
        caps_(std::move(caps)),
        config_(std::move(config)),
        kernel_(std::make_unique<gpu::GpuKernel>(std::move(kernel))),
        workspace_(std::move(workspace)) {}
  static Result<GpuCandidate> bind(const GpuTools& tools, gpu::SharedModule module,
                                   const Gemm& gemm, const DeviceCaps& caps, const Config& config);

  const GpuTools* tools_;
  gpu::SharedModule module_;
  DeviceCaps caps_;
  Config config_;
  std::unique_ptr<gpu::GpuKernel> kernel_;
  gpu::DeviceBuffer workspace_;
};

}  // namespace kiln
