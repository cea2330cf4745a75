// From a problem to a plan, by the policy on a miss; plan_source.h has the ways to one.
#include <fmt/format.h>

#include <algorithm>

#include "cache/keys.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "generator/problem/extent.h"
#include "generator/problem/spelling.h"
#include "runtime/cpu/cpu.h"
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

}  // namespace

Result<SharedPlan> Engine::Impl::bound_plan(const Gemm& gemm, int threads, Match match,
                                            const Config& config, std::string reason,
                                            KernelCode code, const Gemm* as,
                                            std::string_view made_for) {
  auto plan = new_plan(gemm, threads);
  plan->match = match;
  plan->config = text(config);
  plan->reason = std::move(reason);
  plan->made_for = made_for;
  if (match == Match::exact)
    plan->raced = raced_libraries(
        store->measurements().winners_and_libraries(key_of(as != nullptr ? *as : gemm, threads)),
        plan->config);
  if (code.gpu) {
    const Problem problem = as != nullptr ? Problem::of(*as).value() : plan->problem;
    auto bound = GpuPlan::make(gpu_shared, std::move(code.gpu), problem, device, config);
    if (!bound) return tl::unexpected(bound.error());
    plan->gpu = std::move(*bound);
    if (recorder) plan->expected_ns = expected_ns(gemm, threads, match, config);
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

Result<int> Engine::Impl::threads_of(int threads) const {
  if (threads == 0) return default_threads();
  if (gpu && threads != device.compute_units)
    return fail(ErrorCode::bad_input,
                fmt::format("threads = {}: must be 0 on {}", threads, options.device));
  // Cores that were taken away since the engine was opened are no error of a call that worked.
  const int most = std::max(device.compute_units, gpu ? 0 : core_count());
  if (threads < 1 || threads > most)
    return fail(ErrorCode::bad_input,
                fmt::format("threads = {}: must be 0 (the engine's default, {}) or 1 to {}",
                            threads, default_threads(), most));
  return threads;
}

BestKey Engine::Impl::key_of(const Gemm& gemm, int threads) const {
  BestKey key{.device = device,
              .gemm = normalised(gemm),
              .policy = std::string(backend.policy),
              .determinism = options.determinism};
  key.gemm.numerics = numerics_on(gemm, device);
  key.device.compute_units = threads;
  return key;
}

std::optional<Record> Engine::Impl::best(const BestKey& key, const Validators& with) {
  auto record = store->winners().best(key, with);
  if (!record || key.determinism != Determinism::batch_invariant) return record;
  const Config& config = record->measured.config;
  const bool allowed =
      broken_rule(key.problem(), key.device, config).empty() && allowed_by(key).allows(config);
  return allowed ? std::move(record) : std::nullopt;
}

std::optional<Record> Engine::Impl::exact_record(const Gemm& gemm, int threads) {
  auto record = best(key_of(gemm, threads), now);
  if (record || !gpu) return record;
  const Gemm earlier = with_alignment_of_pitches(gemm);
  return earlier == gemm ? std::nullopt : best(key_of(earlier, threads), now);
}

void Engine::Impl::keep(const SharedPlan& plan) {
  if (admission.machine_refused()) return unsettled.put(plan);
  unsettled.settle(plan->key);
  plans.put(plan);
}

Result<SharedPlan> Engine::Impl::plan_for(const Gemm& gemm, int threads) {
  const auto count = threads_of(threads);
  if (!count) return tl::unexpected(count.error());
  const PlanKey key = plan_key(gemm, *count);
  if (const Plan::Impl* plan = plans.find(key, hash_of(key))) return plan->shared_from_this();
  return shielded([&] { return resolve(gemm, *count); });
}

Result<SharedPlan> Engine::Impl::resolve(const Gemm& gemm, int threads) {
  const auto problem = Problem::of(gemm);
  if (!problem) return tl::unexpected(problem.error());
  const Miss miss{*problem, threads};
  if (!gpu) reread_cores();
  // Not the caller's: what is verified now runs in other modes, too.
  std::optional<UsualFloatMode> usual(std::in_place);
  if (gpu && gemm.b_packed)
    return fail(ErrorCode::unsupported, "packed_b: GPU kernels read B as it is; pass it unpacked");
  // Without a product there is nothing to search; the reference kernel computes the rest.
  const bool no_product = gemm.m == 0 || gemm.n == 0 || gemm.k == 0;
  const bool nothing_to_run = gpu ? gemm.m == 0 || gemm.n == 0 : no_product;
  Result<SharedPlan> untuned = SharedPlan{};
  {
    const QuietLock lock(resolving);
    const PlanKey key = plan_key(gemm, threads);
    if (const Plan::Impl* plan = plans.find(key, hash_of(key))) return plan->shared_from_this();
    if (auto plan = unsettled.next(key)) return plan;
    admission.ask_again();
    if (nothing_to_run) {
      auto plan = bare_plan(gemm, threads, device);
      plan->reason = "nothing is multiplied: m, n or k is 0";
      plan->empty_on = gpu;
      plans.put(plan);
      return plan;
    }
    if (auto plan = sources.tuned(miss)) {
      unsettled.settle(key);
      plans.put(*plan);
      return *plan;
    }
    if (options.policy == Policy::error && !no_product)
      return fail(ErrorCode::not_tuned,
                  fmt::format("{} on {} threads was never tuned", text(gemm), threads));
    if (options.policy != Policy::tune_now || no_product) {
      untuned = sources.best_known(miss);
      if (!untuned) return untuned;
      keep(*untuned);
      if (no_product) return untuned;
    }
  }
  if (options.policy == Policy::tune_now) {
    // The lock is not held: tuning takes seconds, and other shapes need not wait.
    const auto report = tune_and_confirm(gemm, {.threads = threads});
    const QuietLock lock(resolving);
    admission.ask_again();
    if (!report) {
      warn(tl::unexpected(report.error()));
    } else {
      warn_of(*report);
      // tune() puts its winner there, also where it could not be written to the database.
      const PlanKey key = plan_key(gemm, threads);
      if (const Plan::Impl* plan = plans.find(key, hash_of(key))) return plan->shared_from_this();
      if (auto plan = sources.exact.find(miss)) {
        unsettled.settle(key);
        plans.put(*plan);
        return *plan;
      }
    }
    untuned = sources.best_known(miss);
    if (!untuned) return untuned;
    keep(*untuned);
  }
  // Whether it is tuned could not be seen: it is asked again.
  if (admission.machine_refused()) return untuned;
  usual.reset();
  // No lock is held: the callback may call tune().
  tell_untuned(**untuned);
  if (options.policy == Policy::tune_in_background && (*untuned)->in_table)
    background.add({gemm, threads});
  return untuned;
}

void Engine::Impl::tell_untuned(const Plan::Impl& plan) {
  // A plan of a range outlives the engine; the function that its caller gave need not.
  if (background.closing()) return;
  // Where no family computes it, there is nothing to tune.
  if (backend.host() && !has_fallback(plan.problem, device)) return;
  const std::string shape = fmt::format("{} on {} threads", text(plan.gemm), plan.threads);
  {
    const QuietLock lock(resolving);
    if (told.size() >= PlanTable::kMost || !told.insert(shape).second) return;
  }
  const std::string message =
      fmt::format("untuned shape {}: runs {} ({}); tune() it once for its best kernel", shape,
                  plan.config, plan.reason);
  say_untuned(message);
}

}  // namespace kiln
