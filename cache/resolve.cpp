// From a problem to a plan: exact record, nearest tuned shapes, the model's first choice, and at
// last the kernel that is always there.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "cache/engine_impl.h"
#include "cache/keys.h"
#include "runtime/cpu.h"
#include "tuner/measure.h"
#include "tuner/verify.h"

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

struct Neighbour {
  Config config;
  Gemm gemm;
  double distance = 0;
  double predicted_ns = 0;
};

}  // namespace

std::shared_ptr<Plan::Impl> bound_plan(const Gemm& gemm, int threads, Match match,
                                       const Config& config, std::string reason,
                                       std::shared_ptr<const HostKernel> kernel) {
  auto plan = bare_plan(gemm, threads);
  plan->match = match;
  plan->config = text(config);
  plan->reason = std::move(reason);
  bind_kernel(*plan, std::move(kernel));
  return plan;
}

Result<int> Engine::Impl::threads_of(int threads) const {
  if (threads == 0) return default_threads;
  if (threads < 1 || threads > device.compute_units)
    return fail(ErrorCode::bad_input,
                fmt::format("threads = {}: must be 0 (the engine's default, {}) or 1 to {}",
                            threads, default_threads, device.compute_units));
  return threads;
}

BestKey Engine::Impl::key_of(const Gemm& gemm, int threads) const {
  BestKey key{.device = device,
              .gemm = normalised(gemm),
              .policy = std::string(kMeasurePolicy),
              .determinism = options.determinism};
  key.device.compute_units = threads;
  return key;
}

void Engine::Impl::warn(const Status& status) {
  if (status) return;
  const std::lock_guard lock(warning);
  if (warned.insert(status.error().message).second) spdlog::warn("{}", status.error().message);
}

Result<SharedPlan> Engine::Impl::plan_for(const Gemm& gemm, int threads) {
  const auto count = threads_of(threads);
  if (!count) return tl::unexpected(count.error());
  const PlanKey key = plan_key(gemm, *count);
  if (const Plan::Impl* plan = plans.find(key, hash_of(key))) return plan->shared_from_this();
  return shielded([&] { return resolve(gemm, *count); });
}

Result<SharedPlan> Engine::Impl::resolve(const Gemm& gemm, int threads) {
  if (Status ok = validate(gemm); !ok) return tl::unexpected(ok.error());
  const bool nothing_to_tune = gemm.m == 0 || gemm.n == 0 || gemm.k == 0;
  {
    const std::lock_guard lock(resolving);
    const PlanKey key = plan_key(gemm, threads);
    if (const Plan::Impl* plan = plans.find(key, hash_of(key))) return plan->shared_from_this();
    if (nothing_to_tune) {
      auto plan = bare_plan(gemm, threads);
      plan->reason = "nothing is multiplied: m, n or k is 0";
      plans.put(plan);
      return plan;
    }
    if (auto plan = exact_plan(gemm, threads)) {
      plans.put(*plan);
      return *plan;
    }
    if (options.policy == Policy::error)
      return fail(ErrorCode::not_tuned,
                  fmt::format("{} on {} threads was never tuned", text(gemm), threads));
    if (options.policy != Policy::tune_now) {
      SharedPlan plan = best_known_plan(gemm, threads);
      plans.put(plan);
      tell_untuned(*plan);
      if (options.policy == Policy::tune_in_background) tune_later(gemm, threads);
      return plan;
    }
  }
  // Policy::tune_now. The lock is not held: tuning takes seconds, and other shapes need not wait.
  const auto report = tune(gemm, {.threads = threads});
  const std::lock_guard lock(resolving);
  auto plan = report ? exact_plan(gemm, threads) : std::nullopt;
  if (!report) warn(tl::unexpected(report.error()));
  if (!plan) {
    plan = best_known_plan(gemm, threads);
    tell_untuned(**plan);
  }
  plans.put(*plan);
  return *plan;
}

std::optional<SharedPlan> Engine::Impl::exact_plan(const Gemm& gemm, int threads) {
  auto record = store->best(key_of(gemm, threads), now);
  if (!record) return std::nullopt;
  std::shared_ptr<const HostKernel> kernel;
  if (!record->image.empty()) {
    if (auto loaded = HostKernel::load(record->image))
      kernel = std::make_shared<const HostKernel>(std::move(*loaded));
    else
      store->quarantine_binary(record->measured.binary_key, loaded.error().message);
  }
  if (!kernel) {  // quarantined, not trusted or lost: the config makes it anew
    auto built = build(record->key, record->measured.config);
    if (!built) {
      warn(tl::unexpected(built.error()));
      return std::nullopt;
    }
    kernel = built->kernel;
  }
  if (record->validators.runtime != now.runtime && !passes_again(*record, *kernel))
    return std::nullopt;
  return bound_plan(gemm, threads, Match::exact, record->measured.config,
                    fmt::format("tuned for exactly this problem ({}, {})", record->created,
                                record->database.string()),
                    std::move(kernel));
}

bool Engine::Impl::passes_again(const Record& record, const HostKernel& kernel) {
  const Canonical problem = canonicalise(record.key.gemm);
  const int threads = record.key.device.compute_units;
  const auto run = [&](const Operands& operands) -> Status {
    KilnArgs args = make_args(problem, operands);
    std::shared_ptr<std::byte[]> packed;
    if (kernel.pack_b != nullptr) {
      const std::int64_t bytes = kernel.packed_b_bytes(&args);
      packed = aligned_bytes(bytes);
      if (packed == nullptr)
        return fail(ErrorCode::device, fmt::format("packed_b: no memory for {} bytes", bytes));
      kernel.pack_b(&args, packed.get());
      args.b = packed.get();
    }
    return launch(kernel, args, threads);
  };
  const Verdict verdict = verify(record.key.gemm, run, {.effort = Effort::quick});
  if (verdict) {
    warn(store->reverified(record, now.runtime));
    return true;
  }
  store->quarantine_binary(
      record.measured.binary_key,
      fmt::format("made under {}, wrong under {}: {}", record.validators.runtime, now.runtime,
                  verdict.error().detail));
  return false;
}

Result<Built> Engine::Impl::build(const BestKey& key, const Config& config) {
  const auto source = render(key.gemm, key.device, config);
  if (!source) return tl::unexpected(source.error());
  if (auto stored = store->binary(source_key(*source), "")) {
    if (auto kernel = HostKernel::load(stored->image))
      return Built{std::make_shared<const HostKernel>(std::move(*kernel)), std::move(*stored)};
    else
      store->quarantine_binary(stored->key, kernel.error().message);
  }
  const auto compiler = host_compiler();
  if (!compiler) return tl::unexpected(compiler.error());
  auto binary = (*compiler)->compile(*source);
  if (!binary) return tl::unexpected(binary.error());
  auto kernel = HostKernel::load(binary->image);
  if (!kernel) return tl::unexpected(kernel.error());
  Built built{std::make_shared<const HostKernel>(std::move(*kernel)),
              {.key = binary_key(*source, (*compiler)->version()),
               .source_key = source_key(*source),
               .compiler = (*compiler)->version(),
               .source = source->text,
               .image = std::move(binary->image)}};
  warn(store->put_binary(built.binary));  // so that the next process need not compile
  return built;
}

std::optional<SharedPlan> Engine::Impl::nearest_plan(const Gemm& gemm, int threads) {
  const BestKey key = key_of(gemm, threads);
  const Canonical problem = canonicalise(gemm);
  std::vector<Neighbour> near;
  for (const Record& record : store->tuned_like(key, now)) {
    const double d = distance(record.key.gemm, gemm);
    if (d <= kFarthest) near.push_back({record.measured.config, record.key.gemm, d});
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const Neighbour& x, const Neighbour& y) { return x.distance < y.distance; });
  std::erase_if(near, [&](const Neighbour& n) {
    return !broken_rule(problem, key.device, n.config).empty();
  });
  if (near.size() > kNeighbours) near.resize(kNeighbours);
  for (Neighbour& n : near) n.predicted_ns = predict_ns(problem, key.device, n.config);
  std::stable_sort(near.begin(), near.end(), [](const Neighbour& x, const Neighbour& y) {
    return x.predicted_ns < y.predicted_ns;
  });
  for (const Neighbour& n : near) {
    auto built = build(key, n.config);
    if (!built) {
      warn(tl::unexpected(built.error()));
      continue;
    }
    return bound_plan(gemm, threads, Match::nearest, n.config,
                      fmt::format("the best of {} tuned neighbours by the model: tuned for {} "
                                  "(log distance {:.2f})",
                                  near.size(), text(n.gemm), n.distance),
                      built->kernel);
  }
  return std::nullopt;
}

std::optional<SharedPlan> Engine::Impl::model_plan(const Gemm& gemm, int threads) {
  const BestKey key = key_of(gemm, threads);
  const Canonical problem = canonicalise(gemm);
  std::optional<Config> first;
  if (const auto space = space_for(key.gemm, key.device)) {
    double best_ns = 0;
    for (const Config& config : space->legal) {
      const double ns = predict_ns(problem, key.device, config);
      if (first && ns >= best_ns) continue;
      first = config;
      best_ns = ns;
    }
  }
  const Config fallback = fallback_config(problem, key.device);
  for (const Config& config : {first.value_or(fallback), fallback}) {
    auto built = build(key, config);
    if (built)
      return bound_plan(gemm, threads, Match::model, config,
                        "no tuned neighbour: the analytic model's first choice", built->kernel);
    warn(tl::unexpected(built.error()));
  }
  return std::nullopt;
}

SharedPlan Engine::Impl::best_known_plan(const Gemm& gemm, int threads) {
  if (auto plan = nearest_plan(gemm, threads)) return *plan;
  if (auto plan = model_plan(gemm, threads)) return *plan;
  auto plan = bare_plan(gemm, threads);
  plan->match = Match::reference;
  plan->reason = "no stored code fits and none could be compiled: the built-in reference kernel";
  return plan;
}

void Engine::Impl::tell_untuned(const Plan::Impl& plan) {
  const std::string shape = fmt::format("{} on {} threads", text(plan.gemm), plan.threads);
  if (!told.insert(shape).second) return;
  const std::string message =
      fmt::format("untuned shape {}: runs {} ({}); tune() it once for its best kernel", shape,
                  plan.config, plan.reason);
  if (options.on_untuned)
    options.on_untuned(message);
  else
    spdlog::warn("{}", message);
}

}  // namespace kiln
