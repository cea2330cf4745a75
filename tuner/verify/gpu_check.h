// The proof that a GPU kernel is right: like tuner/verify/verify.h, with the reference and the
// comparison on the device, so that a check of a big problem takes milliseconds. Knows a kernel
// only as something that puts work into a stream.
#pragma once

#include <functional>
#include <memory>

#include "tuner/verify/gpu_tools.h"
#include "tuner/verify/verify.h"

namespace kiln {

/// Puts one call into the stream; pointers are the device's, in canonical form. The workspace is
/// the callee's business.
using RunOnGpu = std::function<Status(const KilnGpuArgs&, gpu::Stream)>;

/// Operands and references of one problem, made by the first check and kept. Move-only; not
/// thread-safe.
class GpuChecker {
 public:
  /// Least bytes of the device that a check takes: inputs, sums and magnitudes of each kind of
  /// data, and D.
  static double bytes_needed(const Gemm& gemm);
  /// Errors: bad_input, unsupported (invalid problem); device (less is free than a check takes).
  static Result<GpuChecker> make(std::shared_ptr<const GpuTools> tools, const Gemm& gemm,
                                 std::uint64_t seed);
  GpuChecker(GpuChecker&&) noexcept;
  GpuChecker& operator=(GpuChecker&&) noexcept;
  ~GpuChecker();

  /// Runs the kernel three to five times: whole numbers, where only equality is right, with a C
  /// that must not be read; uniform data with alpha, beta and a C of its own; the same in place;
  /// and on problems small enough NaN and infinity at a few places. `crashed` means that the device
  /// gave up: nothing can run on it in this process any more.
  Verdict check(const RunOnGpu& run);
  /// Without alpha, beta or C: what is asked of the vendor's library before it may race. It rounds
  /// alpha * A * B to D's type before it adds beta * C, which the bounds of check() rule out.
  Verdict check_product(const RunOnGpu& run);

  const Gemm& gemm() const;

 private:
  struct Impl;
  explicit GpuChecker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
