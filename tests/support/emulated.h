// From a config to a kernel that the emulator runs: render, exchange the wrappers, compile, load.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "generator/render/code_key.h"
#include "generator/render/emulated.h"
#include "generator/space/family.h"
#include "generator/space/launch_text.h"
#include "runtime/compiler.h"
#include "runtime/emulator/kernel.h"
#include "support/proofs.h"
#include "tuner/verify/verify.h"

namespace kiln::test {

/// A rendered kernel, compiled for the emulator when it is first run.
class Emulated {
 public:
  Emulated(Source source, GpuLaunch launch, const DeviceCaps& device)
      : source_(std::move(source)), launch_(std::move(launch)), device_(device) {}

  /// Throws where it does not compile or load: that is a fault of the test, never a verdict.
  const EmulatedKernel& kernel() const {
    if (kernel_) return *kernel_;
    auto made = compiled();
    if (!made) throw std::runtime_error(made.error().message);
    kernel_ = std::make_shared<EmulatedKernel>(std::move(*made));
    return *kernel_;
  }
  Status call(const Problem& problem, const Operands& operands, std::uint64_t seed) const {
    return kernel().call(problem, operands, seed);
  }
  /// What decides its results, but for the emulator.
  std::string text() const {
    return fmt::format("{} {} {} {}", code_key(source_), launch_text(launch_), device_.arch,
                       device_.compute_units);
  }

 private:
  Result<EmulatedKernel> compiled() const {
    const auto exchanged = emulated(source_, launch_, device_.vendor);
    if (!exchanged) return tl::unexpected(exchanged.error());
    const auto compiler = host_compiler();
    if (!compiler) return tl::unexpected(compiler.error());
    const auto binary = (*compiler)->compile(*exchanged);
    if (!binary) return tl::unexpected(binary.error());
    return EmulatedKernel::load(binary->image, launch_, device_);
  }

  Source source_;
  GpuLaunch launch_;
  DeviceCaps device_;
  mutable std::shared_ptr<const EmulatedKernel> kernel_;
};

/// `change` may alter the source as it would go to the GPU's compiler.
inline Result<Emulated> emulated_kernel(
    const Gemm& gemm, const DeviceCaps& device, const Config& config,
    const std::function<void(std::string&)>& change = [](std::string&) {}) {
  auto source = render(Problem::of(gemm).value(), device, config);
  if (!source) return tl::unexpected(source.error());
  change(source->text);
  GpuLaunch launch =
      family_of(config, device.vendor).launch(Problem::of(gemm).value(), device, config);
  return Emulated(std::move(*source), std::move(launch), device);
}

/// The tuner's own check, run after run in the order that the seed draws; the outcome is kept.
inline Verdict verify_emulated(const Gemm& gemm, const Emulated& kernel, std::uint64_t seed,
                               Effort effort = Effort::full) {
  const std::string asked = fmt::format("{} {} {} {} {}", kernel.text(), text(gemm), seed,
                                        static_cast<int>(effort), emulation_sources());
  const std::string wrong = proof(asked, [&]() -> std::string {
    const EmulatedKernel& loaded = kernel.kernel();
    const Problem problem = Problem::of(gemm).value();
    const Verdict verdict =
        verify(gemm, [&](const Operands& operands) { return loaded.call(problem, operands, seed); },
               {.seed = seed + 1, .effort = effort});
    if (verdict) return {};
    return verdict.error().detail.empty() ? std::string(name(verdict.error().kind))
                                          : verdict.error().detail;
  });
  if (wrong.empty()) return {};
  return tl::unexpected(Failure{Failure::Kind::wrong_result, wrong});
}

}  // namespace kiln::test
