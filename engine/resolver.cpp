// From a problem to a plan, by the policy on a miss; plan_source.h has the ways to one.
#include <fmt/format.h>

#include <algorithm>

#include "cache/keys.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "engine/policy_plan.h"
#include "generator/problem/extent.h"
#include "generator/problem/size.h"
#include "generator/problem/spelling.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/float_mode.h"
#include "runtime/log.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/measure/measure.h"

namespace kiln {
namespace {

/// Bytes that a kernel's threads may use together where another kernel may use less.
std::int64_t workspace_allowed(const Gemm& gemm) {
  constexpr std::int64_t kAlways = std::int64_t{256} << 20;
  std::int64_t operands = 0;
  for (const Operand which : kMatrices) operands += span_bytes(gemm, which);
  return std::max(kAlways, 2 * operands);
}

// Kernels of other shapes that are tried before all others: they are compiled, so each costs its
// timing alone.
constexpr std::size_t kStoredTried = 96;

}  // namespace

Result<SharedPlan> Resolver::bound_plan(const Gemm& gemm, int threads, Match match,
                                        const Config& config, std::string reason, KernelCode code,
                                        const Gemm* as, std::string_view made_for) {
  auto plan = engine_.recorder.new_plan(gemm, threads);
  plan->match = match;
  plan->config = text(config);
  plan->reason = std::move(reason);
  plan->made_for = made_for;
  if (match == Match::exact)
    plan->raced = raced_beside(as != nullptr ? *as : gemm, threads, plan->config);
  if (code.gpu) {
    const Problem problem = as != nullptr ? Problem::of(*as).value() : plan->problem;
    auto bound =
        GpuPlan::make(engine_.gpu_shared, std::move(code.gpu), problem, engine_.device, config);
    if (!bound) return tl::unexpected(bound.error());
    plan->gpu = std::move(*bound);
    if (engine_.recorder.records()) plan->expected_ns = expected_ns(gemm, threads, match, config);
  } else {
    bind_kernel(*plan, std::move(code.host), division_of(config));
    // What was not tuned for these sizes may have been made for few of them.
    if (match != Match::exact && plan->workspace_bytes > workspace_allowed(gemm))
      return fail(ErrorCode::device,
                  fmt::format("config '{}' for {} on {} threads: its workspace of {} bytes is "
                              "several times what the operands take",
                              plan->config, text(gemm), threads, plan->workspace_bytes));
  }
  return plan;
}

std::vector<RacedLibrary> Resolver::raced_beside(const Gemm& gemm, int threads,
                                                 const std::string& config) {
  for (const TuningPolicy policy : engine_.policies()) {
    const auto rows =
        engine_.store->measurements().winners_and_libraries(engine_.key_of(gemm, threads, policy));
    if (auto raced = raced_libraries(rows, config); !raced.empty()) return raced;
  }
  return {};
}

void Resolver::keep(const SharedPlan& plan) {
  if (engine_.admission.machine_refused()) return unsettled_.put(plan);
  unsettled_.settle(plan->key);
  plans_.put(plan);
}

Result<SharedPlan> Resolver::plan_for(const Gemm& gemm, int threads) {
  const auto count = engine_.threads_of(threads);
  if (!count) return tl::unexpected(count.error());
  const PlanKey key = plan_key(gemm, *count);
  if (const Plan::Impl* plan = plans_.find(key, hash_of(key))) return plan->shared_from_this();
  return shielded([&] { return resolve(gemm, *count); });
}

std::optional<SharedPlan> Resolver::plan_of_policy(const Gemm& gemm, int threads,
                                                   TuningPolicy policy) {
  const auto problem = Problem::of(gemm);
  const auto count = engine_.threads_of(threads);
  if (!problem || !count) return std::nullopt;
  const QuietLock lock(resolving_);
  const auto record = engine_.exact_record(gemm, *count, {&policy, 1});
  return record ? sources_.exact.of({*problem, *count}, *record) : std::nullopt;
}

Result<std::optional<Plan>> plan_of_policy(Engine& engine, const Gemm& gemm, int threads,
                                           TuningPolicy policy) {
  return shielded([&]() -> Result<std::optional<Plan>> {
    Engine::Impl& impl = engine.impl();
    auto plan = impl.resolver.plan_of_policy(impl.with_defaults(gemm), threads, policy);
    if (!plan) return std::nullopt;
    return Plan(std::move(*plan));
  });
}

Result<SharedPlan> Resolver::resolve(const Gemm& gemm, int threads) {
  const auto problem = Problem::of(gemm);
  if (!problem) return tl::unexpected(problem.error());
  const Miss miss{*problem, threads};
  if (!engine_.gpu) reread_cores();
  // Not the caller's: what is verified now runs in other modes, too.
  std::optional<UsualFloatMode> usual(std::in_place);
  if (engine_.gpu && gemm.b_packed)
    return fail(ErrorCode::unsupported, "packed_b: GPU kernels read B as it is; pass it unpacked");
  // Without a product there is nothing to search; the reference kernel computes the rest.
  const bool no_product = gemm.m == 0 || gemm.n == 0 || gemm.k == 0;
  const bool nothing_to_run = engine_.gpu ? gemm.m == 0 || gemm.n == 0 : no_product;
  Result<SharedPlan> untuned = SharedPlan{};
  {
    const QuietLock lock(resolving_);
    const PlanKey key = plan_key(gemm, threads);
    if (const Plan::Impl* plan = plans_.find(key, hash_of(key))) return plan->shared_from_this();
    if (auto plan = unsettled_.next(key)) return plan;
    engine_.admission.ask_again();
    if (nothing_to_run) {
      auto plan = bare_plan(gemm, threads, engine_.device);
      plan->reason = "nothing is multiplied: m, n or k is 0";
      plan->empty_on = engine_.gpu;
      plans_.put(plan);
      return plan;
    }
    if (auto plan = sources_.tuned(miss)) {
      unsettled_.settle(key);
      plans_.put(*plan);
      return *plan;
    }
    if (engine_.options.policy == Policy::error && !no_product)
      return fail(ErrorCode::not_tuned,
                  fmt::format("{} on {} threads was never tuned", text(gemm), threads));
    if (engine_.options.policy != Policy::tune_now || no_product) {
      untuned = sources_.best_known(miss);
      if (!untuned) return untuned;
      keep(*untuned);
      if (no_product) return untuned;
    }
  }
  if (engine_.options.policy == Policy::tune_now) {
    // The lock is not held: tuning takes seconds, and other shapes need not wait.
    const auto report = engine_.tuning.tune_and_confirm(gemm, {.threads = threads});
    const QuietLock lock(resolving_);
    engine_.admission.ask_again();
    if (!report) {
      engine_.warn(tl::unexpected(report.error()));
    } else {
      engine_.tuning.warn_of(*report);
      // tune() puts its winner there, also where it could not be written to the database.
      const PlanKey key = plan_key(gemm, threads);
      if (const Plan::Impl* plan = plans_.find(key, hash_of(key))) return plan->shared_from_this();
      if (auto plan = sources_.exact.find(miss)) {
        unsettled_.settle(key);
        plans_.put(*plan);
        return *plan;
      }
    }
    untuned = sources_.best_known(miss);
    if (!untuned) return untuned;
    keep(*untuned);
  }
  // Whether it is tuned could not be seen: it is asked again.
  if (engine_.admission.machine_refused()) return untuned;
  usual.reset();
  // No lock is held: the callback may call tune().
  tell_untuned(**untuned);
  if (engine_.options.policy == Policy::tune_in_background && (*untuned)->in_table)
    engine_.background.add({gemm, threads});
  return untuned;
}

void Resolver::tell_untuned(const Plan::Impl& plan) {
  // A plan of a range outlives the engine; the function that its caller gave need not.
  if (engine_.background.closing()) return;
  // Where no family computes it, there is nothing to tune.
  if (engine_.backend.host() && !has_fallback(plan.problem, engine_.device)) return;
  const std::string shape = fmt::format("{} on {} threads", text(plan.gemm), plan.threads);
  {
    const QuietLock lock(resolving_);
    if (told_.size() >= PlanTable::kMost || !told_.insert(shape).second) return;
  }
  const std::string message =
      fmt::format("untuned shape {}: runs {} ({}); tune() it once for its best kernel", shape,
                  plan.config, plan.reason);
  if (!engine_.options.on_untuned) return log::warn("{}", message);
  try {
    called("on_untuned", engine_.options.on_untuned, message);
  } catch (const CallbackThrew& e) {  // the call that missed continues and writes its D
    engine_.warn(fail(ErrorCode::bad_input, e.what()));
  }
}

void Resolver::forget_stored() {
  const QuietLock lock(resolving_);
  stored_.forget();
}

void Resolver::install(const Gemm& gemm, const BestKey& key, const Config& config,
                       const std::string& reason, const KernelCode& code) {
  const int threads = key.device.compute_units;
  const QuietLock lock(resolving_);
  stored_.kernels.forget();
  const auto put = [&](const Gemm& spelling) {
    auto plan = bound_plan(spelling, threads, Match::exact, config, reason, code);
    if (plan)
      plans_.put(*plan);
    else
      engine_.warn(tl::unexpected(plan.error()));
  };
  put(gemm);
  for (const SharedPlan& plan : plans_.all())
    if (plan->threads == threads && plan->gemm != gemm && normalised(plan->gemm) == key.gemm)
      put(plan->gemm);
}

void Resolver::install_range(const GemmRange& range, int threads) {
  const QuietLock lock(resolving_);
  stored_.ranges.forget();
  stored_.kernels.forget();
  for (const SharedPlan& plan : plans_.all()) {
    const std::int64_t size = plan->gemm.*member_of(range.size);
    if (plan->threads != threads || plan->match == Match::exact || size < range.first ||
        size > range.last() ||
        without_size(plan->gemm, range.size) != without_size(range.gemm, range.size))
      continue;
    if (auto better = sources_.range.find({plan->problem, threads})) plans_.put(*better);
  }
}

std::vector<Config> Resolver::stored_configs(const BestKey& key) {
  const QuietLock lock(resolving_);
  std::vector<Config> configs;
  std::vector<DeviceCaps> owners{key.device};
  for (const DeviceCaps& relative : stored_.kernels.relatives(engine_.device, *engine_.store))
    owners.push_back(relative);
  for (const DeviceCaps& owner : owners) {
    BestKey there = key;
    there.device = owner;
    for (const auto& [ns, kernel] :
         stored_.kernels.of(there, *engine_.store, engine_.now).ranked(there)) {
      const Config& config = kernel->config();
      if (configs.size() == kStoredTried) return configs;
      if (serves(*kernel, key.gemm, key.device, *engine_.store) &&
          std::ranges::find(configs, config) == configs.end())
        configs.push_back(config);
    }
  }
  return configs;
}

}  // namespace kiln
