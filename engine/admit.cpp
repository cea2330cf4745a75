// Which code may run in the caller's process: what was verified for the very problem and thread
// count, once, in a worker where there is one.
#include <fmt/format.h>

#include "engine/engine_impl.h"
#include "generator/space/family.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/packed_b.h"
#include "runtime/env.h"
#include "tuner/verify/check.h"
#include "tuner/verify/ragged.h"
#include "tuner/worker/process.h"

namespace kiln {
namespace {

/// One call on plain operands; a B that the kernel takes packed is packed first.
Status run_once(const HostKernel& kernel, const Config& config, const Problem& problem,
                const DeviceCaps& device, const Operands& operands) {
  const int threads = device.compute_units;
  HostArgs args = make_args(problem, operands, division_of(config));
  PackedCopy copy;
  if (problem.gemm.b_packed) {
    auto packed = pack_b(packed_layout(problem, device), problem, args.b, threads);
    if (!packed) return tl::unexpected(packed.error());
    copy = std::move(*packed);
    args.b = copy.data.get();
  }
  return launch(kernel, args, threads);
}

/// Where no worker is installed beside the library, the check runs here.
Verdict verify_here(const Gemm& gemm, const HostKernel& kernel, const Config& config,
                    const DeviceCaps& device, const VerifyOptions& options) {
  const Problem problem = Problem::of(gemm).value();
  return verify(
      gemm,
      [&](const Operands& operands) { return run_once(kernel, config, problem, device, operands); },
      options, flushed_by(gemm, device, config));
}

}  // namespace

Status Engine::Impl::prove(const BestKey& key, const Config& config, const KernelCode& kernel,
                           const StoredBinary& code) {
  if (store->proven(code.key, key, config, now.runtime)) return {};
  const VerifyOptions options{.seed = 1, .effort = Effort::quick};
  const Gemm gemm = proof_problem(key.gemm, key.device, config);
  const auto start = [&](const Gemm& on) {
    return Checker::start(on, key.device, options, {.device_index = gpu ? gpu->ordinal() : 0});
  };
  auto checker = start(gemm);
  // Where a worker is installed but does not start, unproved code must not run here instead.
  const char* named = env("KILN_WORKER");
  const bool none_installed = (named == nullptr || *named == '\0') && !find_worker();
  if (!checker && (gpu || !none_installed)) {
    machine_refused = machine_refused || find_worker().has_value();
    return tl::unexpected(checker.error());
  }
  Verdict verdict = checker ? checker->check(config, {.image = code.image})
                            : verify_here(gemm, *kernel.host, config, key.device, options);
  // Beside the caller's own data a GPU may have no room for the problem's references.
  if (gpu && !verdict && verdict.error().kind == Failure::Kind::resources)
    if (const auto small = small_problem_for(key.gemm, key.device, config, kCheapToProve))
      if (auto again = start(*small)) verdict = again->check(config, {.image = code.image});
  if (verdict) {
    warn(store->proved(code.key, key, config, now.runtime));
    return {};
  }
  const auto& [kind, detail] = verdict.error();
  const std::string what =
      fmt::format("config '{}' for {} on {} threads: {}: {}", text(config), text(key.gemm),
                  key.device.compute_units, name(kind), detail);
  // A machine that is full or slow says nothing about the code. A slow one is not asked again: code
  // that hangs takes the whole limit each time. Nor is a full GPU, whose worker takes seconds.
  if (kind == Failure::Kind::resources) {
    machine_refused = machine_refused || !gpu;
    return fail(ErrorCode::device, what);
  }
  if (kind != Failure::Kind::timed_out) store->quarantine_binary(code.key, what);
  return fail(ErrorCode::verification, what);
}

Status Engine::Impl::prove_envelope(const Record& record, std::span<const std::byte> image) {
  auto checker =
      Checker::start(record.key.gemm, record.key.device, {.seed = 1, .effort = Effort::quick},
                     {.device_index = gpu ? gpu->ordinal() : 0});
  if (!checker) return tl::unexpected(checker.error());
  const Config& config = record.measured.config;
  const Verdict verdict =
      checker->check_envelope(record.key.gemm, config, {.image = {image.begin(), image.end()}});
  if (verdict) return store->proved_envelope(record);
  const auto& [kind, detail] = verdict.error();
  // A machine that is full or slow says nothing about the code.
  const bool machine = kind == Failure::Kind::resources || kind == Failure::Kind::timed_out;
  return fail(machine ? ErrorCode::device : ErrorCode::verification,
              fmt::format("config '{}', tuned for {}: {}: {}", text(config), text(record.key.gemm),
                          name(kind), detail));
}

}  // namespace kiln
