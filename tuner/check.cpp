#include "tuner/check.h"

#include <array>

namespace kiln {
namespace {

// A hang, not a busy machine, is what these limits are to catch.
constexpr double kLeastSeconds = 30;
constexpr double kSecondsPerFlop = 1e-8;

}  // namespace

Result<Checker> Checker::start(const Gemm& gemm, const DeviceCaps& device,
                               const VerifyOptions& options) {
  auto executable = find_worker();
  if (!executable) return tl::unexpected(executable.error());
  Checker checker(gemm, device, options);
  checker.executable_ = std::move(*executable);
  auto worker = WorkerProcess::start(checker.executable_);
  if (!worker) return tl::unexpected(worker.error());
  checker.worker_.emplace(std::move(*worker));
  return checker;
}

Verdict Checker::check(const Config& config, const Binary& binary) {
  const auto failed = [](Failure::Kind kind, std::string detail) {
    return tl::unexpected(Failure{kind, std::move(detail)});
  };
  if (!worker_->alive()) {
    auto worker = WorkerProcess::start(executable_);
    if (!worker) return failed(Failure::Kind::resources, worker.error().message);
    worker_.emplace(std::move(*worker));
  }
  const auto image = memory_file(binary.image);
  if (!image) return failed(Failure::Kind::resources, image.error().message);
  const nlohmann::json request{{"do", "check"},
                               {"gemm", text(gemm_)},
                               {"device", to_json(device_)},
                               {"seed", options_.seed},
                               {"effort", static_cast<int>(options_.effort)},
                               {"config", text(config)}};
  const double seconds = kLeastSeconds + kSecondsPerFlop * gemm_.flops();
  const auto reply = worker_->ask(request, std::array{image->get()}, seconds);
  if (!reply) return tl::unexpected(reply.error());
  if (const auto error = reply->body.find("error"); error != reply->body.end())
    return failed(Failure::Kind::resources, error->get<std::string>());
  if (reply->body.at("passed").get<bool>()) return {};
  const auto outcome = outcome_from(reply->body.at("outcome"));
  if (!outcome) return failed(Failure::Kind::crashed, outcome.error().message);
  return tl::unexpected(std::get<Failure>(*outcome));
}

}  // namespace kiln
