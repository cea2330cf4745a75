// A kernel rendered for the emulator, compiled, loaded and bound to one launch description: its
// calls run on the CPU, lane by lane, and say what was wrong with them. Knows no problems and no
// tuning.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "generator/problem/device_caps.h"
#include "generator/problem/problem.h"
#include "generator/space/gpu_launch.h"
#include "kiln/engine.hpp"
#include "templates/cuda/common/abi.h"

namespace kiln {

/// Move-only; one call at a time.
class EmulatedKernel {
 public:
  /// `image` is what the host's compiler made of emulated(). Errors: device (no such image, an
  /// entry missing), internal (a tensor map that no driver would take).
  static Result<EmulatedKernel> load(std::span<const std::byte> image, GpuLaunch launch,
                                     const DeviceCaps& device);
  EmulatedKernel(EmulatedKernel&&) noexcept;
  EmulatedKernel& operator=(EmulatedKernel&&) noexcept;
  ~EmulatedKernel();

  /// All steps, clusters shared out among the machine's threads. The seed draws the order in which
  /// warps run and copies arrive; 0 is the plain order. Errors: device, naming block and lane.
  Status run(const KilnGpuArgs& args, std::uint64_t seed) const;

  /// The same with plain operands and a workspace of its own, which must be left as it must be
  /// found. `problem` comes from Problem::of().
  Status call(const Problem& problem, const Operands& operands, std::uint64_t seed) const;

  const GpuLaunch& description() const;

 private:
  struct Impl;
  explicit EmulatedKernel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
