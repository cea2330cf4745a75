// From a config to something that can be called: render, compile, load and bind in one step.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "generator/render/code_key.h"
#include "generator/render/render.h"
#include "runtime/compiler.h"
#include "runtime/cpu/cpu.h"
#include "support/proofs.h"
#include "tuner/measure/bound_kernel.h"
#include "tuner/verify/verify.h"

namespace kiln::test {

/// The kernel of `config`, bound to `gemm`. Errors: those of the first stage that refused.
inline Result<BoundKernel> compiled(const Gemm& gemm, const DeviceCaps& device,
                                    const Config& config) {
  const auto source = render(Problem::of(gemm).value(), device, config);
  if (!source) return tl::unexpected(source.error());
  const auto compiler = host_compiler();
  if (!compiler) return tl::unexpected(compiler.error());
  const auto binary = (*compiler)->compile(*source);
  if (!binary) return tl::unexpected(binary.error());
  auto kernel = HostKernel::load(binary->image);
  if (!kernel) return tl::unexpected(kernel.error());
  return BoundKernel(std::move(*kernel), config, gemm, device);
}

/// `verifier`'s check of the kernel of `config`; the outcome is kept. `data` says what the verifier
/// was made with.
inline Verdict check_compiled(Verifier& verifier, const DeviceCaps& device, const Config& config,
                              std::string_view data = "seed 5, full") {
  const Gemm& gemm = verifier.gemm();
  const auto source = render(Problem::of(gemm).value(), device, config);
  if (!source) return tl::unexpected(Failure{Failure::Kind::compile, source.error().message});
  const std::string asked = fmt::format("{} {} {} {} {} {}", code_key(*source), text(config),
                                        text(gemm), device.compute_units, data, host_sources());
  const auto check = [&]() -> std::string {
    auto kernel = compiled(gemm, device, config);
    if (!kernel) return kernel.error().message;
    const Verdict verdict =
        verifier.check([&](const Operands& operands) { return kernel->run(operands); },
                       flushed_by(gemm, device, config));
    return verdict ? std::string() : "wrong: " + verdict.error().detail;
  };
  constexpr std::uint64_t kSample = 8;
  const std::string wrong = proof(asked, check, kSample);
  if (wrong.empty()) return {};
  return tl::unexpected(Failure{Failure::Kind::wrong_result, wrong});
}

/// The named CPU with `threads` threads, if this machine can run its code.
inline std::optional<DeviceCaps> runnable(std::string_view name, int threads) {
  auto named = cpu_caps_named(name).value();
  const auto here = detect_cpu().value();
  const auto lacks = [](bool wanted, bool got) { return wanted && !got; };
  if (lacks(named.cpu.avx2_fma, here.cpu.avx2_fma) || lacks(named.cpu.avx512, here.cpu.avx512) ||
      lacks(named.cpu.avx512_bf16, here.cpu.avx512_bf16) ||
      lacks(named.cpu.avx512_vnni, here.cpu.avx512_vnni) ||
      lacks(named.cpu.amx_bf16, here.cpu.amx_bf16) || lacks(named.cpu.amx_int8, here.cpu.amx_int8))
    return std::nullopt;
  named.compute_units = threads;
  return named;
}

}  // namespace kiln::test
