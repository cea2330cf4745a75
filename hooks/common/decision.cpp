#include "hooks/common/decision.h"

#include <cstdio>
#include <utility>

namespace kiln::hooks {
namespace {

constexpr double kGain = 1.02;

}  // namespace

Engine* open_engine(const std::string& device, Policy policy) {
  OpenOptions options;
  options.device = device;
  options.policy = policy;
  options.on_untuned = [](const std::string&) {};
  auto engine = Engine::open(std::move(options));
  if (engine) return new Engine(std::move(*engine));
  std::fprintf(stderr, "kiln: all products on %s are passed on: %s\n", device.c_str(),
               engine.error().message.c_str());
  return nullptr;
}

std::unique_ptr<const Decision> decide(Engine& engine, const Gemm& gemm, int threads,
                                       double call_ns) {
  auto made = std::make_unique<Decision>();
  auto plan = engine.plan(gemm, threads);
  if (plan)
    if (const auto race = plan->library_race();
        race && race->library_ns >= kGain * race->kernel_ns + call_ns)
      made->plan = std::move(*plan);
  if (!made->plan)
    if (auto log = engine.call_log(gemm, threads)) made->log = std::move(*log);
  return made->plan || made->log ? std::move(made) : nullptr;
}

}  // namespace kiln::hooks
