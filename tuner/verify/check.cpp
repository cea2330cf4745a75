#include "tuner/verify/check.h"

#include <array>

namespace kiln {
namespace {

// On a GPU: a driver's start, the checking kernels' compile, launches; references beside it.
constexpr double kLeastGpuSeconds = 15;
constexpr double kGpuSecondsPerFlop = 2e-12;
// The emulator runs every lane of every instruction, several times over.
constexpr double kEmulatedSecondsPerFlop = 1e-6;

/// Lanes of a unit that multiply fp64: what the references are made of.
int wide_lanes(const DeviceCaps& device) {
  const int sm = device.gpu.sm;
  if (sm != 0) return sm == 80 || sm == 90 || sm == 100 ? 32 : 2;
  return device.gpu.wave == 64 ? 32 : 2;
}

}  // namespace

double reference_seconds(const Gemm& gemm, const DeviceCaps& device) {
  constexpr double kShareOfPeak = 0.25;
  const double ghz = device.ghz > 0 ? device.ghz : 1.5;
  const double peak = 2e9 * ghz * device.compute_units * wide_lanes(device);
  return 2 * gemm.flops() / (kShareOfPeak * peak);
}

double Checker::seconds_allowed() const {
  if (on_gpu())
    return kLeastGpuSeconds + kGpuSecondsPerFlop * gemm_.flops() +
           reference_seconds(gemm_, device_);
  return where_.emulated ? seconds_on_cpu(gemm_, kEmulatedSecondsPerFlop) : seconds_on_cpu(gemm_);
}

Result<Checker> Checker::start(const Gemm& gemm, const DeviceCaps& device,
                               const VerifyOptions& options, const CheckedOn& where) {
  auto executable = find_worker();
  if (!executable) return tl::unexpected(executable.error());
  Checker checker(gemm, device, options, where);
  checker.executable_ = std::move(*executable);
  auto worker = WorkerProcess::start(checker.executable_);
  if (!worker) return tl::unexpected(worker.error());
  checker.worker_.emplace(std::move(*worker));
  return checker;
}

Verdict Checker::check(const Config& config, const Binary& binary) {
  const Verdict told = asked(config, binary);
  return told && on_cpu() ? own_check_.check(config, binary) : told;
}

/// What the worker says.
Verdict Checker::asked(const Config& config, const Binary& binary) {
  const auto failed = [](Failure::Kind kind, std::string detail) {
    return tl::unexpected(Failure{kind, std::move(detail)});
  };
  if (!worker_ || !worker_->alive()) {
    auto worker = WorkerProcess::start(executable_);
    if (!worker) return failed(Failure::Kind::resources, worker.error().message);
    worker_.emplace(std::move(*worker));
  }
  const auto image = memory_file("kiln-image", binary.image);
  if (!image) return failed(Failure::Kind::resources, image.error().message);
  nlohmann::json request{{"do", "check"},
                         {"gemm", text(gemm_)},
                         {"device", to_json(device_)},
                         {"seed", options_.seed},
                         {"effort", static_cast<int>(options_.effort)},
                         {"config", text(config)}};
  if (on_gpu()) request["device_index"] = where_.device_index;
  if (where_.emulated) request["emulated"] = true;
  const auto reply = worker_->ask(request, std::array{image->get()}, seconds_allowed());
  if (!reply) return tl::unexpected(reply.error());
  const nlohmann::json& body = reply->body;
  if (const auto fault = body.find("fault"); fault != body.end()) {
    worker_.reset();  // it ends itself
    return failed(Failure::Kind::crashed, fault->dump());
  }
  if (const auto error = body.find("error"); error != body.end())
    return failed(Failure::Kind::resources, error->dump());
  const auto passed = body.find("passed");
  if (passed != body.end() && passed->is_boolean() && passed->get<bool>()) return {};
  const auto outcome = outcome_from(body.value("outcome", nlohmann::json::object()));
  if (!outcome) return failed(Failure::Kind::crashed, outcome.error().message);
  if (const auto* why = std::get_if<Failure>(&*outcome)) return tl::unexpected(*why);
  return failed(Failure::Kind::crashed, "worker message: a time in place of a verdict");
}

}  // namespace kiln
