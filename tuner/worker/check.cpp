#include "tuner/worker/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "generator/problem/device_class.h"
#include "tuner/verify/envelope.h"

namespace kiln {
namespace {

// On a GPU: a driver's start, the checking kernels' compile, launches; references beside it.
constexpr double kLeastCheckSeconds = 15;
constexpr double kGpuSecondsPerFlop = 2e-12;
// The emulator runs every lane of every instruction, several times over.
constexpr double kEmulatedSecondsPerFlop = 1e-6;
// Multiply-adds of a problem of an envelope: hundredths of a second on a GPU.
// On a CPU thousandths: there are over a hundred problems.
constexpr double kMostWork = 0x1p34, kMostHostWork = 0x1p24, kMostEmulatedWork = 0x1p22;
// Problems of an envelope on a CPU that this process compares itself.
constexpr int kOwnChecks = 3;
// Threads on which kernels of a class of CPUs are proved, in turn: one, even and odd divisions, a
// grid of each kind, more than most problems of an envelope have work for. How a kernel divides
// work among any other number is templates/cpu/common/share.h, which tests divide by all of them.
constexpr std::array kClassThreads{16, 1, 2, 3, 7, 1};

/// The device as problem `index` of an envelope is proved on it.
DeviceCaps proved_on(DeviceCaps device, std::size_t index) {
  if (!class_name(device).empty())
    device.compute_units = kClassThreads[index % kClassThreads.size()];
  return device;
}

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

double Checker::seconds_allowed(const Gemm& gemm) const {
  if (on_gpu())
    return kLeastCheckSeconds + kGpuSecondsPerFlop * gemm.flops() +
           reference_seconds(gemm, device_);
  return where_.emulated ? seconds_on_cpu(gemm, kEmulatedSecondsPerFlop) : seconds_on_cpu(gemm);
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
  const Verdict told = asked(gemm_, device_, config, binary, true);
  return told && on_cpu() ? own_check_.check(config, binary) : told;
}

Verdict Checker::check_envelope(const Gemm& gemm, const Config& config, const Binary& binary) {
  const double most_work = where_.emulated ? kMostEmulatedWork
                           : on_gpu()      ? kMostWork
                                           : kMostHostWork;
  const std::vector<Gemm> problems = envelope(gemm, device_, config, most_work);
  if (problems.empty())
    return tl::unexpected(
        Failure{Failure::Kind::resources, "all sizes are constants of this code"});
  if (on_cpu()) worker_.reset();  // that it ran other code, or timed some
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Gemm& one = problems[i];
    const DeviceCaps device = proved_on(device_, i);
    if (where_.emulated) worker_.reset();  // in its cage it serves one problem
    if (Verdict told = asked(one, device, config, binary, false); !told) {
      told.error().detail += fmt::format(" (the same code on '{}')", text(one));
      if (device != device_)
        told.error().detail += fmt::format(", {} threads", device.compute_units);
      return told;
    }
  }
  if (!on_cpu()) return {};
  // By the code's own word it is right everywhere. Here it cannot know where it is asked again.
  std::random_device drawn;
  for (int i = 0; i < kOwnChecks; ++i) {
    const std::size_t one = drawn() % problems.size();
    if (Verdict compared = OwnCheck(problems[one], proved_on(device_, one)).check(config, binary);
        !compared)
      return compared;
  }
  return {};
}

Verdict Checker::asked(const Gemm& gemm, const DeviceCaps& device, const Config& config,
                       const Binary& binary, bool ragged) {
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
                         {"gemm", text(gemm)},
                         {"device", to_json(device)},
                         {"seed", options_.seed},
                         {"effort", static_cast<int>(options_.effort)},
                         {"config", text(config)},
                         {"ragged", ragged}};
  if (on_gpu()) request["device_index"] = where_.device_index;
  if (where_.emulated) request["emulated"] = true;
  const auto reply = worker_->ask(request, std::array{image->get()}, seconds_allowed(gemm));
  if (!reply) {
    if (reply.error().kind == Failure::Kind::crashed && !worker_->came_to_code())
      return failed(Failure::Kind::resources, reply.error().detail);
    return tl::unexpected(reply.error());
  }
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
