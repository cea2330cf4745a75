#include "engine/admission.h"

#include <fmt/format.h>

#include "cache/records/binaries.h"
#include "cache/records/proofs.h"
#include "engine/gpu_resources.h"
#include "generator/problem/device_class.h"
#include "generator/render/code_key.h"
#include "generator/space/family.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/packed_b.h"
#include "runtime/env.h"
#include "tuner/verify/ragged.h"
#include "tuner/worker/check.h"
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

Result<KernelCode> Admission::load(std::span<const std::byte> image) const {
  if (engine_.gpu) {
    auto module = engine_.gpu_shared->module(image);
    if (!module) return tl::unexpected(module.error());
    return KernelCode{.gpu = std::move(*module)};
  }
  auto kernel = HostKernel::load(image);
  if (!kernel) return tl::unexpected(kernel.error());
  return KernelCode{.host = std::make_shared<const HostKernel>(std::move(*kernel))};
}

void Admission::not_loaded(const std::string& binary_key, const Error& error) {
  if (error.code != ErrorCode::device)
    return engine_.store->binaries().quarantine(binary_key, error.message);
  machine_refused_ = true;
  engine_.warn(tl::unexpected(error));
}

Result<Built> Admission::build(const BestKey& key, const Config& config) {
  const auto source = render(key.problem(), key.device, config);
  if (!source) return tl::unexpected(source.error());
  if (auto stored = engine_.store->binaries().of_source(code_key(*source), "")) {
    auto kernel = load(stored->image);
    if (kernel) return Built{std::move(*kernel), std::move(*stored)};
    not_loaded(stored->key, kernel.error());
    if (kernel.error().code == ErrorCode::device) return tl::unexpected(kernel.error());
  }
  const auto without = [this](const Error& error) {
    machine_refused_ = machine_refused_ || error.code == ErrorCode::device;
    return tl::unexpected(error);
  };
  const auto found = compiler();
  if (!found) return without(found.error());
  Compiler& compiler = **found;
  auto binary = compiler.compile(*source);
  if (!binary) return without(binary.error());
  auto kernel = load(binary->image);
  if (!kernel) return without(kernel.error());
  Built built{std::move(*kernel),
              {.key = binary_key(*source, compiler.version()),
               .code_key = code_key(*source),
               .compiler = compiler.version(),
               .source = source->text,
               .image = std::move(binary->image)}};
  engine_.warn(
      engine_.store->binaries().put(built.binary));  // so that the next process need not compile
  return built;
}

Result<Built> Admission::admitted(const BestKey& key, const Config& config) {
  auto built = build(key, config);
  if (!built) return built;
  if (const Status proof = prove(key, config, built->kernel, built->binary); !proof)
    return tl::unexpected(proof.error());
  return built;
}

Status Admission::prove(const BestKey& key, const Config& config, const KernelCode& kernel,
                        const StoredBinary& code) {
  if (engine_.store->proofs().proven(code.key, key, config, engine_.now.runtime)) return {};
  const VerifyOptions options{.seed = 1, .effort = Effort::quick};
  const Gemm gemm = proof_problem(key.gemm, key.device, config);
  const auto start = [&](const Gemm& on) {
    return Checker::start(on, key.device, options,
                          {.device_index = engine_.gpu ? engine_.gpu->ordinal() : 0});
  };
  auto checker = start(gemm);
  // Where a worker is installed but does not start, unproved code must not run here instead.
  const char* named = env("KILN_WORKER");
  const bool none_installed = (named == nullptr || *named == '\0') && !find_worker();
  if (!checker && (engine_.gpu || !none_installed)) {
    machine_refused_ = machine_refused_ || find_worker().has_value();
    return tl::unexpected(checker.error());
  }
  Verdict verdict = checker ? checker->check(config, {.image = code.image})
                            : verify_here(gemm, *kernel.host, config, key.device, options);
  // Beside the caller's own data a GPU may have no room for the problem's references.
  if (engine_.gpu && !verdict && verdict.error().kind == Failure::Kind::resources)
    if (const auto small = small_problem_for(key.gemm, key.device, config, kCheapToProve))
      if (auto again = start(*small)) verdict = again->check(config, {.image = code.image});
  if (verdict) {
    engine_.warn(engine_.store->proofs().proved(code.key, key, config, engine_.now.runtime));
    return {};
  }
  const auto& [kind, detail] = verdict.error();
  const std::string what =
      fmt::format("config '{}' for {} on {} threads: {}: {}", text(config), text(key.gemm),
                  key.device.compute_units, name(kind), detail);
  // A machine that is full or slow says nothing about the code. A slow one is not asked again: code
  // that hangs takes the whole limit each time. Nor is a full GPU, whose worker takes seconds.
  if (kind == Failure::Kind::resources) {
    machine_refused_ = machine_refused_ || !engine_.gpu;
    return fail(ErrorCode::device, what);
  }
  if (kind != Failure::Kind::timed_out) engine_.store->binaries().quarantine(code.key, what);
  return fail(ErrorCode::verification, what);
}

Status Admission::prove_envelope(const Record& record, std::span<const std::byte> image) {
  auto checker =
      Checker::start(record.key.gemm, record.key.device, {.seed = 1, .effort = Effort::quick},
                     {.device_index = engine_.gpu ? engine_.gpu->ordinal() : 0});
  if (!checker) return tl::unexpected(checker.error());
  const Config& config = record.measured.config;
  const Verdict verdict =
      checker->check_envelope(record.key.gemm, config, {.image = {image.begin(), image.end()}});
  if (verdict) return engine_.store->proofs().proved_envelope(record);
  const auto& [kind, detail] = verdict.error();
  // A machine that is full or slow says nothing about the code.
  const bool machine = kind == Failure::Kind::resources || kind == Failure::Kind::timed_out;
  return fail(machine ? ErrorCode::device : ErrorCode::verification,
              fmt::format("config '{}', tuned for {}: {}: {}", text(config), text(record.key.gemm),
                          name(kind), detail));
}

bool Admission::make_ready(StoredKernel& kernel) {
  if (!kernel.proved) kernel.proved = engine_.store->proofs().envelope_proven(*kernel.record);
  if (!*kernel.proved) return false;
  if (kernel.code) return true;
  kernel.proved = false;  // but for what follows
  const Record& made = *kernel.record;
  const auto code = engine_.store->binaries().by_key(made.measured.binary_key);
  if (!code) return false;
  auto loaded = load(code->image);
  if (!loaded) {
    if (loaded.error().code == ErrorCode::device) kernel.proved.reset();  // it is asked again
    not_loaded(code->key, loaded.error());
    return false;
  }
  // As for an exact record: another libc or kernel below it is one more verification.
  // A class's proof is of no runtime: what its code relies on is the ABI that its launch names.
  const bool of_class = !class_name(made.key.device).empty();
  if (!engine_.gpu && !of_class && made.validators.runtime != engine_.now.runtime) {
    const StoredBinary binary{.key = made.measured.binary_key, .image = code->image};
    if (const Status proof = prove(made.key, made.measured.config, *loaded, binary); !proof) {
      if (proof.error().code == ErrorCode::device) kernel.proved.reset();
      engine_.warn(proof);
      return false;
    }
  }
  kernel.code = std::move(*loaded);
  kernel.proved = true;
  return true;
}

}  // namespace kiln
