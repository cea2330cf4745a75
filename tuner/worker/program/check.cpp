// The "check" request: verification alone, for `kiln verify`. No operands for timing are made,
// which for most problems would cost more than the check. A GPU's kernel may be checked here too,
// on the emulator.
#include <fmt/format.h>

#include <functional>

#include "generator/space/family.h"
#include "generator/space/space.h"
#include "runtime/cpu/cpu.h"
#include "runtime/emulator/kernel.h"
#include "tuner/measure/bound_kernel.h"
#include "tuner/verify/ragged.h"
#include "tuner/verify/verify.h"
#include "tuner/worker/program/session.h"
#include "tuner/worker/protocol.h"

namespace kiln {

using nlohmann::json;

struct Session::Check {
  std::optional<Verifier> problem, ragged;
};

namespace {

json failed(const Failure& failure) {
  return {{"passed", false}, {"outcome", to_json(std::variant<Timing, Failure>(failure))}};
}

/// The verifier of `gemm`, made again only when the last one was another problem's.
Result<Verifier*> verifier_of(std::optional<Verifier>& kept, const Gemm& gemm,
                              const VerifyOptions& options) {
  if (!kept || kept->gemm() != gemm) {
    Result<Verifier> made = Verifier::make(gemm, options);
    if (!made) return tl::unexpected(made.error());
    kept.emplace(std::move(*made));
  }
  return &*kept;
}

/// Code as the verifier calls it, on one problem that it covers.
using CodeOn = std::function<Result<RunKernel>(const Gemm&)>;

Result<CodeOn> host_code(std::span<const std::byte> image, const Gemm& gemm,
                         const DeviceCaps& device) {
  auto loaded = HostKernel::load(image);
  if (!loaded) return tl::unexpected(loaded.error());
  const auto kernel = std::make_shared<BoundKernel>(std::move(*loaded), gemm, device.compute_units);
  return [kernel](const Gemm& on) -> Result<RunKernel> {
    return [kernel, problem = canonicalise(on)](const Operands& operands) {
      return kernel->run(problem, operands);
    };
  };
}

/// The first run keeps the plain order of waves; each later one draws its own.
CodeOn emulated_code(std::vector<std::byte> image, const DeviceCaps& device, const Config& config,
                     std::uint64_t seed) {
  return [=, image = std::move(image)](const Gemm& on) -> Result<RunKernel> {
    const Canonical problem = canonicalise(on);
    auto loaded = EmulatedKernel::load(
        image, family_of(config, device.vendor).launch(problem, device, config), device);
    if (!loaded) return tl::unexpected(loaded.error());
    const auto kernel = std::make_shared<EmulatedKernel>(std::move(*loaded));
    return [kernel, problem, seed, run = std::uint64_t{0}](const Operands& operands) mutable {
      const std::uint64_t order = run == 0 ? 0 : seed + run;
      ++run;
      return kernel->call(problem, operands, order);
    };
  };
}

Result<CodeOn> code_of(const json& body, std::vector<std::byte> image, const Gemm& gemm,
                       const DeviceCaps& device, const Config& config) {
  if (!body.value("emulated", false)) return host_code(image, gemm, device);
  return emulated_code(std::move(image), device, config, body.at("seed").get<std::uint64_t>());
}

}  // namespace

json Session::check(const Message& request) {
  const json& body = request.body;
  const auto gemm = parse_gemm(body.at("gemm").get<std::string>());
  if (!gemm) return refused(gemm.error());
  const auto device = caps_from(body.at("device"));
  if (!device) return refused(device.error());
  const auto config = parse_config(body.at("config").get<std::string>());
  if (!config) return refused(config.error());
  const bool again = check_ && check_->problem && check_->problem->gemm() == *gemm;
  const bool emulated = body.value("emulated", false);
  const int threads = emulated ? 0 : device->compute_units;
  if (!again)
    if (const Status ok = open_for(*gemm, threads); !ok) return refused(ok.error());
  if (!check_) check_ = std::make_shared<Check>();
  const VerifyOptions options{.seed = body.at("seed").get<std::uint64_t>(),
                              .effort = static_cast<Effort>(body.at("effort").get<int>())};
  enter(WorkerStatus::preparing);
  const auto verifier = verifier_of(check_->problem, *gemm, options);
  if (!verifier) return refused(verifier.error());
  // The emulator's lanes have stacks of their own, as many as a GPU has threads.
  confine(threads, emulated ? std::nullopt : std::optional(touched_bytes(*gemm)));

  enter(WorkerStatus::loading);
  auto image = read_file(request.files.at(0).get());
  if (!image) return failed({Failure::Kind::load, image.error().message});
  const auto code = code_of(body, std::move(*image), *gemm, *device, *config);
  if (!code) return failed({Failure::Kind::load, code.error().message});
  const auto own = (*code)(*gemm);
  if (!own) return failed({Failure::Kind::load, own.error().message});
  // The emulator keeps denormals, whatever the device it stands for does.
  const double flushed = emulated ? 0 : flushed_by(*gemm, *device, *config);
  enter(WorkerStatus::verifying);
  if (const Verdict verdict = (*verifier)->check(*own, flushed); !verdict)
    return failed(verdict.error());

  const auto neighbour = ragged_problem_for(*gemm, *device, *config);
  if (!neighbour) return {{"passed", true}};
  VerifyOptions smaller = options;
  smaller.ask_for_room = false;
  const auto ragged = verifier_of(check_->ragged, *neighbour, smaller);
  if (!ragged) return refused(ragged.error());
  const auto beside = (*code)(*neighbour);
  if (!beside) return failed({Failure::Kind::load, beside.error().message});
  if (Verdict verdict = (*ragged)->check(*beside, flushed); !verdict) {
    verdict.error().detail += fmt::format(" (the same code on '{}')", text(*neighbour));
    return failed(verdict.error());
  }
  return {{"passed", true}};
}

}  // namespace kiln
