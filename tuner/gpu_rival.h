// cuBLASLt as a contender: its proposals for a problem, and the fastest of them that is right.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generator/cuda_library.h"
#include "runtime/cuda/cublaslt.h"
#include "tuner/gpu_check.h"
#include "tuner/gpu_timing.h"

namespace kiln {

/// cuBLASLt's proposals for a problem, each something to be checked and timed.
class GpuRival {
 public:
  /// What it may use; its own default on this class of device.
  static constexpr std::size_t kWorkspaceBytes = 32 << 20;
  /// Errors: unsupported (no library, or nothing for the problem), device.
  static Result<GpuRival> make(const GpuTools& tools, const Gemm& gemm);
  int choices() const { return library_->choices(); }
  /// What a row of one of its proposals is called.
  CudaLibrary config(int choice) const { return {choice, version_}; }
  RunOnGpu run(int choice) const;

 private:
  GpuRival(cuda::CublasLt library, cuda::DeviceBuffer workspace, int version)
      : library_(std::make_unique<cuda::CublasLt>(std::move(library))),
        workspace_(std::move(workspace)),
        version_(version) {}
  std::unique_ptr<cuda::CublasLt> library_;
  cuda::DeviceBuffer workspace_;
  int version_;
};

/// A proposal that gave a wrong result.
struct RefusedChoice {
  int choice;
  std::string why;
};
/// The fastest of the library's proposals that are right; nothing when none is. Errors: device (a
/// proposal brought the device's context down).
Result<std::optional<int>> fastest_choice(const GpuTools& tools, const GpuRival& library,
                                          const GpuOperandSets& sets, GpuChecker& checker,
                                          std::vector<RefusedChoice>& refused);

}  // namespace kiln
