// cuBLASLt as a peer: its proposals for a problem, and the fastest correct one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generator/families/cuda/library/config.h"
#include "runtime/cuda/cublaslt.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/verify/gpu_check.h"

namespace kiln {

/// cuBLASLt's proposals for a problem, to be checked and timed.
class VendorLibrary {
 public:
  /// Workspace that the library may use: its own default on this class of device.
  static constexpr std::size_t kWorkspaceBytes = 32 << 20;
  /// Errors: unsupported (no library, or nothing for the problem), device.
  static Result<VendorLibrary> make(const GpuTools& tools, const Gemm& gemm);
  int choices() const { return library_->choices(); }
  /// The config under which a proposal's row is stored.
  CudaLibrary config(int choice) const { return {choice, version_}; }
  RunOnGpu run(int choice) const;

 private:
  VendorLibrary(cuda::CublasLt library, gpu::DeviceBuffer workspace, int version)
      : library_(std::make_unique<cuda::CublasLt>(std::move(library))),
        workspace_(std::move(workspace)),
        version_(version) {}
  std::unique_ptr<cuda::CublasLt> library_;
  gpu::DeviceBuffer workspace_;
  int version_;
};

/// A proposal that gave a wrong result.
struct RefusedChoice {
  int choice;
  std::string why;
};
/// The library's fastest correct proposal; nothing when none is correct. Errors: device (a proposal
/// destroyed the device's context).
Result<std::optional<int>> fastest_choice(const GpuTools& tools, const VendorLibrary& library,
                                          const GpuOperandSets& sets, GpuChecker& checker,
                                          std::vector<RefusedChoice>& refused);

}  // namespace kiln
