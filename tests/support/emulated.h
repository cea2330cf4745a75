// From a config to a kernel that the emulator runs: render, exchange the wrappers, compile, load.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "generator/render/emulated.h"
#include "generator/space/family.h"
#include "runtime/compiler.h"
#include "runtime/emulator/kernel.h"
#include "tuner/verify/verify.h"

namespace kiln::test {

/// `change` may alter the source as it would go to the GPU's compiler.
inline Result<EmulatedKernel> emulated_kernel(
    const Gemm& gemm, const DeviceCaps& device, const Config& config,
    const std::function<void(std::string&)>& change = [](std::string&) {}) {
  auto source = render(gemm, device, config);
  if (!source) return tl::unexpected(source.error());
  change(source->text);
  const GpuLaunch launch =
      family_of(config, device.vendor).launch(canonicalise(gemm), device, config);
  const auto exchanged = emulated(*source, launch, device.vendor);
  if (!exchanged) return tl::unexpected(exchanged.error());
  const auto compiler = host_compiler();
  if (!compiler) return tl::unexpected(compiler.error());
  const auto binary = (*compiler)->compile(*exchanged);
  if (!binary) return tl::unexpected(binary.error());
  return EmulatedKernel::load(binary->image, launch, device);
}

/// The tuner's own check, run after run in the order that the seed draws.
inline Verdict verify_emulated(const Gemm& gemm, const EmulatedKernel& kernel, std::uint64_t seed,
                               Effort effort = Effort::full) {
  const Canonical problem = canonicalise(gemm);
  return verify(gemm,
                [&](const Operands& operands) { return kernel.call(problem, operands, seed); },
                {.seed = seed + 1, .effort = effort});
}

}  // namespace kiln::test
