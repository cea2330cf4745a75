// The "check" request: verification alone, for `kiln verify`. No operands for timing are made,
// which for most problems would cost more than the check.
#include <fmt/format.h>

#include "runtime/cpu.h"
#include "tuner/bound_kernel.h"
#include "tuner/ragged.h"
#include "tuner/verify.h"
#include "tuner/worker/session.h"

namespace kiln {

using nlohmann::json;

struct Session::Check {
  std::optional<Verifier> problem, ragged;
};

namespace {

json failed(const Failure& failure) {
  return {{"passed", false}, {"outcome", to_json(std::variant<Timing, Failure>(failure))}};
}

json refused(const Error& error) { return {{"error", error.message}}; }

/// The verifier of `gemm`, made anew only when the last one was another problem's.
Result<Verifier*> verifier_of(std::optional<Verifier>& kept, const Gemm& gemm,
                              const VerifyOptions& options) {
  if (!kept || kept->gemm() != gemm) {
    Result<Verifier> made = Verifier::make(gemm, options);
    if (!made) return tl::unexpected(made.error());
    kept.emplace(std::move(*made));
  }
  return &*kept;
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
  // Asked for its side effect: tile registers are granted to each process on request.
  if (const auto here = detect_cpu(device->compute_units); !here) return refused(here.error());
  if (!check_) check_ = std::make_shared<Check>();
  const VerifyOptions options{.seed = body.at("seed").get<std::uint64_t>(),
                              .effort = static_cast<Effort>(body.at("effort").get<int>())};
  enter(WorkerStatus::preparing);
  const auto verifier = verifier_of(check_->problem, *gemm, options);
  if (!verifier) return refused(verifier.error());

  enter(WorkerStatus::loading);
  auto kernel =
      read_file(request.files.at(0).get())
          .and_then([](const std::vector<std::byte>& image) { return HostKernel::load(image); })
          .map([&](HostKernel loaded) {
            return BoundKernel(std::move(loaded), *gemm, device->compute_units);
          });
  if (!kernel) return failed({Failure::Kind::load, kernel.error().message});
  enter(WorkerStatus::verifying);
  const auto own = [&](const Operands& operands) { return kernel->run(operands); };
  if (const Verdict verdict = (*verifier)->check(own); !verdict) return failed(verdict.error());

  const auto neighbour = ragged_problem_for(*gemm, *device, *config);
  if (!neighbour) return {{"passed", true}};
  const auto ragged = verifier_of(check_->ragged, *neighbour, options);
  if (!ragged) return refused(ragged.error());
  const Canonical canonical = canonicalise(*neighbour);
  const auto beside = [&](const Operands& operands) { return kernel->run(canonical, operands); };
  if (Verdict verdict = (*ragged)->check(beside); !verdict) {
    verdict.error().detail += fmt::format(" (the same code on '{}')", text(*neighbour));
    return failed(verdict.error());
  }
  return {{"passed", true}};
}

}  // namespace kiln
