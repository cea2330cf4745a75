// NVIDIA's own GEMM library, opened at run time: a peer to be timed and, where the caller allows
// it, a kernel to be dispatched to. Knows the canonical form; knows no tuning.
#pragma once

#include <memory>

#include "generator/problem/problem.h"
#include "runtime/gpu/device.h"
#include "templates/cuda/common/abi.h"

namespace kiln::cuda {

/// One problem as cuBLASLt sees it, with the algorithms that its heuristic proposes. Move-only;
/// thread-safe once made.
class CublasLt {
 public:
  static constexpr int kMostChoices = 8;

  /// Asks the heuristic, with `workspace_bytes` of workspace allowed. Errors: unsupported (the
  /// library is not installed, or has no algorithm for the problem), as a sentence.
  static Result<CublasLt> make(gpu::SharedDevice device, const Problem& problem,
                               std::size_t workspace_bytes);
  CublasLt(CublasLt&&) noexcept;
  CublasLt& operator=(CublasLt&&) noexcept;
  ~CublasLt();

  int choices() const;
  /// Bytes of workspace that `choice` wants.
  std::size_t workspace_bytes(int choice) const;
  /// Puts one call into the stream; the device's context must be current, `args.workspace` large
  /// enough. With a bias or scales one thread at a time. Errors: device.
  Status enqueue(const KilnGpuArgs& args, int choice, gpu::Stream stream) const;

 private:
  struct Impl;
  explicit CublasLt(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// As the library counts: 130002 is 13.0.2. Errors: unsupported (it is not installed).
Result<int> cublaslt_version_number();
/// "cuBLASLt 13.0.2"; errors: unsupported (it is not installed).
Result<std::string> cublaslt_version();

}  // namespace kiln::cuda
