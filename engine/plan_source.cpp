#include "engine/plan_source.h"

#include <fmt/format.h>

#include <utility>

#include "engine/engine_impl.h"

namespace kiln {
namespace {

/// Where no source has a plan.
tl::unexpected<Error> none_known(const Miss& miss, const Engine::Impl& engine) {
  const std::string shape = text(miss.gemm());
  if (engine.admission.machine_refused())
    return fail(ErrorCode::device,
                fmt::format("{} on {} threads: the machine refused to load or verify a kernel (the "
                            "log has its words); the next call asks again",
                            shape, miss.threads));
  const auto compiler = engine.admission.compiler();
  const ErrorCode code = compiler ? ErrorCode::unsupported : ErrorCode::compiler;
  const std::string why = compiler ? std::string() : ": " + compiler.error().message;
  if (engine.gpu)
    return fail(code, fmt::format("{} on {}: no stored kernel fits and none could be made{}", shape,
                                  engine.device.arch, why));
  const std::string order = allowed_by(engine.key_of(miss.gemm(), miss.threads)).order();
  return fail(code, fmt::format("determinism = batch_invariant: {} on {} threads: no stored kernel "
                                "sums as {} and none could be made{}",
                                shape, miss.threads, order, why));
}

}  // namespace

AllowedSummation allowed_by(const BestKey& key) {
  return {key.problem(), key.device, key.determinism};
}

std::string origin_text(const DeviceCaps& owner, bool own) {
  if (own) return {};
  return "; made and measured on " + owner.model + ", whose code and launch are this device's";
}

std::optional<SharedPlan> ReferenceSource::find(const Miss& miss) {
  // It has an order of its own, and serves the class where nothing else does.
  const BestKey key = engine_.key_of(miss.gemm(), miss.threads);
  if (engine_.gpu || !allowed_by(key).order().empty()) return std::nullopt;
  auto plan = engine_.recorder.new_plan(miss.gemm(), miss.threads);
  plan->match = Match::reference;
  plan->reason = engine_.admission.machine_refused()
                     ? "the machine refused to load or verify a kernel, and is asked again at a "
                       "later call: the built-in reference kernel"
                 : has_fallback(plan->problem, engine_.device)
                     ? "no code could be compiled or none passed: the built-in reference kernel"
                     : "no family of host kernels computes it: the built-in reference kernel";
  return plan;
}

std::optional<SharedPlan> PlanSource::bound(const Miss& miss, Match match, const Config& config,
                                            std::string reason, KernelCode code, const Gemm* as,
                                            std::string_view made_for) {
  auto plan = engine_.resolver.bound_plan(miss.gemm(), miss.threads, match, config,
                                          std::move(reason), std::move(code), as, made_for);
  if (plan) return *plan;
  engine_.warn(tl::unexpected(plan.error()));
  return std::nullopt;
}

std::optional<SharedPlan> PlanSources::first(std::initializer_list<PlanSource*> sources,
                                             const Miss& miss) {
  for (PlanSource* source : sources)
    if (auto plan = source->find(miss)) return plan;
  return std::nullopt;
}

Result<SharedPlan> PlanSources::best_known(const Miss& miss) {
  if (auto plan = first({&relative, &stored, &classes, &nearest, &model, &reference}, miss))
    return *plan;
  return none_known(miss, engine_);
}

}  // namespace kiln
