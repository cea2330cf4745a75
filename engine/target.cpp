#include "engine/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "cache/keys.h"
#include "engine/engine_impl.h"
#include "engine/list_check.h"
#include "engine/outlook.h"
#include "engine/vendor.h"
#include "generator/problem/operands.h"
#include "generator/problem/spelling.h"
#include "tuner/measure/roofline.h"
#include "tuner/measure/vendor_library.h"

namespace kiln {
namespace {

Status unknown_device(const std::string& name) {
  if (name.starts_with("emu:"))
    return fail(
        ErrorCode::unsupported,
        fmt::format(
            "device = {}: gemm() does not run on the emulator, which only verifies kernels: "
            "see `kiln verify`",
            name));
  return fail(ErrorCode::bad_input, fmt::format("device = {}: must be cpu, {}", name, gpu_names()));
}

}  // namespace

Status Target::find() {
  const std::string& name = options.device;
  if (names_gpu(name)) {
    auto opened = open_gpu(name);
    if (!opened) return tl::unexpected(opened.error());
    gpu = std::move(*opened);
    device = gpu->caps();
    gpu_shared = std::make_shared<GpuResources>(gpu);
  } else if (name == backend_of(Vendor::cpu).name) {
    reread_cores();
    const auto caps = detect_cpu();
    if (!caps) return tl::unexpected(caps.error());
    device = *caps;
  } else {
    return unknown_device(name);
  }
  backend = backend_of(device.vendor);
  if (gpu) named_threads = device.compute_units;
  const auto threads = threads_of(options.threads);
  if (!threads) return tl::unexpected(threads.error());
  if (options.threads != 0) named_threads = *threads;
  return {};
}

Gemm Target::with_defaults(const Gemm& gemm) const { return with_defaults_of(gemm, device); }

Gemm Target::with_defaults(const Gemm& gemm, const Operands& operands) const {
  // What the addresses have in common.
  std::uintptr_t all = kUsualAlignment;
  if (operands.list != nullptr && Problem::of(gemm)) all |= bits_of_list(gemm, operands);
  for_each_operand([&](auto which) {
    if constexpr (row_of(which).matrix)
      if (which != Operand::c || operands.beta != 0)
        all |= reinterpret_cast<std::uintptr_t>(pointer<which>(operands));
    if constexpr (which == Operand::scale_a || which == Operand::scale_b)
      if (follows_alignment(gemm, which))
        all |= reinterpret_cast<std::uintptr_t>(pointer<which>(operands));
  });
  Gemm copy = gemm;
  copy.alignment = static_cast<int>(all & (~all + 1));
  return copy;
}

GemmRange Target::with_defaults(const GemmRange& range) const {
  GemmRange copy = range;
  if (validate(range)) copy.gemm = with_defaults_of(range.gemm, device);
  return copy;
}

Result<int> Target::threads_of(int threads) const {
  if (threads == 0) return default_threads();
  if (gpu && threads != device.compute_units)
    return fail(ErrorCode::bad_input,
                fmt::format("threads = {}: must be 0 on {}", threads, options.device));
  // Cores that were taken away since the engine was opened are not an error of a call that worked.
  const int most = std::max(device.compute_units, gpu ? 0 : core_count());
  if (threads < 1 || threads > most)
    return fail(ErrorCode::bad_input,
                fmt::format("threads = {}: must be 0 (the engine's default, {}) or 1 to {}",
                            threads, default_threads(), most));
  return threads;
}

std::span<const TuningPolicy> Target::policies() const {
  static constexpr std::array kBoth{TuningPolicy::sustained, TuningPolicy::cool};
  return std::span(kBoth).subspan(backend.sustained.empty() ? 1 : 0);
}

Result<TuningPolicy> Target::policy_of(const Gemm& gemm, TuningPolicy policy) const {
  const bool has_sustained = !backend.sustained.empty();
  if (policy == TuningPolicy::sustained && !has_sustained)
    return fail(ErrorCode::unsupported,
                fmt::format("policy = sustained: kernels on {} are timed in one way, {}; it is for "
                            "GPUs, whose power limit sets their clock",
                            options.device, backend.policy));
  if (policy != TuningPolicy::automatic) return policy;
  const BestKey key = key_of(gemm, device.compute_units);
  return has_sustained && bound_by_power(key.gemm, device, best_prediction(key))
             ? TuningPolicy::sustained
             : TuningPolicy::cool;
}

BestKey Target::key_of(const Gemm& gemm, int threads, TuningPolicy policy) const {
  BestKey key{.device = device,
              .gemm = normalised(gemm),
              .policy = policy_name(policy),
              .determinism = options.determinism};
  key.gemm.numerics = numerics_on(gemm, device);
  key.device.compute_units = threads;
  return key;
}

}  // namespace kiln
