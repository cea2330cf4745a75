// From a problem to a plan: exact record, nearest tuned shapes, the model's first choice, and at
// last the kernel that is always there.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cache/keys.h"
#include "engine/engine_impl.h"
#include "generator/problem/extent.h"
#include "generator/problem/spelling.h"
#include "generator/render/code_key.h"
#include "generator/space/summation.h"
#include "runtime/cpu/cpu.h"
#include "runtime/log.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/measure/measure.h"

namespace kiln {
namespace {

/// Neighbours looked at, and how far away (see distance) one may be to say anything: e^3 is a
/// twentyfold change of one size.
constexpr std::size_t kNeighbours = 8;
constexpr double kFarthest = 3.0;

/// Length of the vector of log ratios of m, n, k and batch. Never volume: 1×10000 is not 100×100.
double distance(const Gemm& x, const Gemm& y) {
  double sum = 0;
  for (const auto size : {&Gemm::m, &Gemm::n, &Gemm::k, &Gemm::batch}) {
    const double ratio = std::log(static_cast<double>(std::max<std::int64_t>(1, x.*size)) /
                                  static_cast<double>(std::max<std::int64_t>(1, y.*size)));
    sum += ratio * ratio;
  }
  return std::sqrt(sum);
}

/// Bytes that a kernel's threads may use together where another kernel may use less.
std::int64_t workspace_allowed(const Gemm& gemm) {
  constexpr std::int64_t kAlways = std::int64_t{256} << 20;
  std::int64_t operands = 0;
  for (const Operand which : kMatrices) operands += span_bytes(gemm, which);
  return std::max(kAlways, 2 * operands);
}

/// What the key's class of determinism allows for its problem.
AllowedSummation allowed_by(const BestKey& key) {
  return {key.problem(), key.device, key.determinism};
}

/// What the model would try, best first; a plain config that is legal almost everywhere comes last.
std::vector<Config> model_choices(const BestKey& key, const Problem& problem) {
  constexpr std::size_t kTried = 3;  // a GPU's compiler refuses some
  std::vector<std::pair<double, Config>> ranked;
  if (const auto space = space_for(key.problem(), key.device, key.determinism))
    for (const Config& config : space->legal)
      ranked.emplace_back(predict_ns(problem, key.device, config), config);
  const std::size_t count = std::min(ranked.size(), on_host(key.device) ? std::size_t{1} : kTried);
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count),
                    ranked.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<Config> choices;
  for (std::size_t i = 0; i < count; ++i) choices.push_back(ranked[i].second);
  if (has_fallback(problem, key.device))
    if (const Config plain = fallback_config(problem, key.device);
        broken_rule(problem, key.device, plain).empty() && allowed_by(key).allows(plain))
      choices.push_back(plain);
  return choices;
}

struct Neighbour {
  Config config;
  Gemm gemm;
  double distance = 0;
  double predicted_ns = 0;
};

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
        store->winners_and_libraries(key_of(as != nullptr ? *as : gemm, threads)), plan->config);
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
  auto record = store->best(key, with);
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
  if (const auto problem = Problem::of(gemm); !problem) return tl::unexpected(problem.error());
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
    for (const auto tuned : {&Impl::exact_plan, &Impl::range_plan})
      if (auto plan = (this->*tuned)(gemm, threads)) {
        unsettled.settle(key);
        plans.put(*plan);
        return *plan;
      }
    if (options.policy == Policy::error && !no_product)
      return fail(ErrorCode::not_tuned,
                  fmt::format("{} on {} threads was never tuned", text(gemm), threads));
    if (options.policy != Policy::tune_now || no_product) {
      untuned = best_known_plan(gemm, threads);
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
      if (auto plan = exact_plan(gemm, threads)) {
        unsettled.settle(key);
        plans.put(*plan);
        return *plan;
      }
    }
    untuned = best_known_plan(gemm, threads);
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

std::optional<SharedPlan> Engine::Impl::exact_plan(const Gemm& gemm, int threads) {
  auto record = exact_record(gemm, threads);
  if (!record) return std::nullopt;
  if (auto library = library_plan(gemm, threads, *record)) return library;
  const Config& config = record->measured.config;
  KernelCode kernel;
  if (!record->image.empty()) {
    if (auto loaded = admission.load(record->image))
      kernel = std::move(*loaded);
    else
      admission.not_loaded(record->measured.binary_key, loaded.error());
    if (admission.machine_refused()) return std::nullopt;
  }
  if (!kernel) {  // quarantined, not trusted or lost: it is compiled again from the config
    auto built = admission.admitted(record->key, config);
    if (!built) {
      warn(tl::unexpected(built.error()));
      return std::nullopt;
    }
    kernel = built->kernel;
  } else if (record->launch.empty() || !record->measured.verified ||
             (!gpu && record->validators.runtime != now.runtime)) {
    // A cubin is what the device itself executes: another driver runs the very same instructions.
    const StoredBinary code{.key = record->measured.binary_key, .image = record->image};
    if (const Status proof = admission.prove(record->key, config, kernel, code); !proof) {
      warn(proof);
      return std::nullopt;
    }
    if (record->launch.empty()) warn(store->stamp(*record));
  }
  auto plan = bound_plan(gemm, threads, Match::exact, config,
                         fmt::format("tuned for exactly this problem ({}, {})", record->created,
                                     record->database.string()),
                         std::move(kernel), &record->key.gemm);
  if (plan) return *plan;
  warn(tl::unexpected(plan.error()));
  return std::nullopt;
}

std::optional<SharedPlan> Engine::Impl::nearest_plan(const Gemm& gemm, int threads) {
  const BestKey key = key_of(gemm, threads);
  const Problem problem = Problem::of(gemm).value();
  std::vector<Neighbour> near;
  for (const Record& record : store->tuned_like(key, now)) {
    const double d = distance(record.key.gemm, gemm);
    if (d <= kFarthest) near.push_back({record.measured.config, record.key.gemm, d});
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const Neighbour& x, const Neighbour& y) { return x.distance < y.distance; });
  const AllowedSummation order = allowed_by(key);
  std::erase_if(near, [&](const Neighbour& n) {
    return !broken_rule(problem, key.device, n.config).empty() || !order.allows(n.config);
  });
  if (near.size() > kNeighbours) near.resize(kNeighbours);
  for (Neighbour& n : near) n.predicted_ns = predict_ns(problem, key.device, n.config);
  std::stable_sort(near.begin(), near.end(), [](const Neighbour& x, const Neighbour& y) {
    return x.predicted_ns < y.predicted_ns;
  });
  for (const Neighbour& n : near) {
    auto built = admission.admitted(key, n.config);
    if (!built) {
      warn(tl::unexpected(built.error()));
      if (admission.machine_refused()) break;  // the next one, too
      continue;
    }
    auto plan = bound_plan(gemm, threads, Match::nearest, n.config,
                           fmt::format("the best of {} tuned neighbours by the model: tuned for {} "
                                       "(log distance {:.2f})",
                                       near.size(), text(n.gemm), n.distance),
                           built->kernel);
    if (plan) return *plan;
    warn(tl::unexpected(plan.error()));
  }
  return std::nullopt;
}

std::optional<SharedPlan> Engine::Impl::model_plan(const Gemm& gemm, int threads) {
  const BestKey key = key_of(gemm, threads);
  const Problem problem = Problem::of(gemm).value();
  for (const Config& config : model_choices(key, problem)) {
    auto built = admission.admitted(key, config);
    auto plan =
        built ? bound_plan(gemm, threads, Match::model, config,
                           "no tuned neighbour: the analytic model's first choice", built->kernel)
              : tl::unexpected(built.error());
    if (plan) return *plan;
    warn(tl::unexpected(plan.error()));
    if (admission.machine_refused()) break;
  }
  return std::nullopt;
}

Result<SharedPlan> Engine::Impl::best_known_plan(const Gemm& gemm, int threads) {
  if (auto plan = relative_plan(gemm, threads)) return *plan;
  if (auto plan = stored_plan(gemm, threads)) return *plan;
  // Nothing is compiled that the machine would not load.
  if (!admission.machine_refused())
    if (auto plan = nearest_plan(gemm, threads)) return *plan;
  if (!admission.machine_refused())
    if (auto plan = model_plan(gemm, threads)) return *plan;
  const bool reference_serves = !gpu && allowed_by(key_of(gemm, threads)).order().empty();
  if (admission.machine_refused() && !reference_serves)
    return fail(ErrorCode::device,
                fmt::format("{} on {} threads: the machine refused to load or verify a kernel (the "
                            "log has its words); the next call asks again",
                            text(gemm), threads));
  if (gpu) {
    const auto compiler = admission.compiler();
    return fail(compiler ? ErrorCode::unsupported : ErrorCode::compiler,
                fmt::format("{} on {}: no stored kernel fits and none could be made{}", text(gemm),
                            device.arch, compiler ? "" : ": " + compiler.error().message));
  }
  // The reference kernel has an order of its own: it serves the class where nothing else does.
  if (const std::string order = allowed_by(key_of(gemm, threads)).order(); !order.empty()) {
    const auto compiler = admission.compiler();
    return fail(
        compiler ? ErrorCode::unsupported : ErrorCode::compiler,
        fmt::format("determinism = batch_invariant: {} on {} threads: no stored kernel sums "
                    "as {} and none could be made{}",
                    text(gemm), threads, order, compiler ? "" : ": " + compiler.error().message));
  }
  auto plan = new_plan(gemm, threads);
  plan->match = Match::reference;
  plan->reason = admission.machine_refused()
                     ? "the machine refused to load or verify a kernel, and is asked again at a "
                       "later call: the built-in reference kernel"
                 : has_fallback(plan->problem, device)
                     ? "no code could be compiled or none passed: the built-in reference kernel"
                     : "no family of host kernels computes it: the built-in reference kernel";
  return plan;
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
