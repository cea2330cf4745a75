#include "engine/outlook.h"

#include <algorithm>

#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "generator/problem/spelling.h"

namespace kiln {

double best_prediction(const BestKey& key) {
  const Problem problem = key.problem();
  double best = 0;
  if (const auto space = space_for(problem, key.device, key.determinism))
    for (const Config& config : space->legal) {
      const double ns = predict_ns(problem, key.device, config);
      if (best == 0 || ns < best) best = ns;
    }
  return best;
}

std::string_view name(Basis basis) {
  switch (basis) {
    case Basis::stored:
      return "stored";
    case Basis::neighbours:
      return "neighbours";
    case Basis::corrected:
      return "corrected";
    case Basis::model:
      return "model";
    case Basis::none:
      return "none";
  }
  return "none";
}

std::optional<double> Resolver::model_error() {
  const auto records = engine_.store->winners().list();
  std::vector<double> errors;
  for (const Record& record : records ? *records : std::vector<Record>{}) {
    DeviceCaps any_threads = record.key.device;
    any_threads.compute_units = engine_.device.compute_units;
    if (any_threads != engine_.device || record.key.policy != engine_.backend.policy) continue;
    const Problem problem = record.key.problem();
    const Config& config = record.measured.config;
    if (!broken_rule(problem, record.key.device, config).empty()) continue;
    const double ns = predict_ns(problem, record.key.device, config);
    if (ns > 0) errors.push_back(record.measured.timing().median_ns / ns);
  }
  if (errors.empty()) return std::nullopt;
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::ranges::nth_element(errors, middle);
  return *middle;
}

double Resolver::expected_ns(const Gemm& gemm, int threads, Match match, const Config& config) {
  const BestKey key = engine_.key_of(gemm, threads);
  if (match == Match::exact)
    if (const auto record = engine_.exact_record(gemm, threads))
      return record->measured.timing().median_ns;
  // A kernel for less aligned addresses may break a rule of the problem's own alignment.
  for (const Gemm& served : served_by(key.gemm)) {
    const Problem problem = Problem::of(served).value();
    if (!broken_rule(problem, key.device, config).empty()) continue;
    const KernelClass& known = stored_.kernels.of(key, *engine_.store, engine_.now);
    return predict_ns(problem, key.device, config) *
           (known.model ? known.model->at(key.gemm).of(config) : model_error().value_or(1));
  }
  return 0;
}

Result<Outlook> Resolver::outlook(const Gemm& gemm, int threads, double called_ns) {
  const auto plan = plan_for(gemm, threads);
  if (!plan) return tl::unexpected(plan.error());
  const Plan::Impl& p = **plan;
  Outlook found{.match = p.match, .config = p.config};
  const QuietLock lock(resolving_);
  const auto config = parse_config(p.config);
  if (config) found.now_ns = expected_ns(gemm, p.threads, p.match, *config);
  if (is_tuned(p.match)) {
    found.tuned_ns = found.now_ns;
    found.basis = Basis::stored;
    return found;
  }
  const BestKey key = engine_.key_of(gemm, p.threads);
  KernelClass& known = stored_.kernels.of(key, *engine_.store, engine_.now);
  const auto ranked = known.ranked(key);
  if (known.model && !ranked.empty()) {
    // The best kernel is faster than the chosen one by what choices by this model lose.
    found.tuned_ns = ranked.front().ns * std::min(1.0, known.model->quality().mean);
    found.basis = Basis::neighbours;
  } else {
    const auto error = model_error();
    found.tuned_ns = best_prediction(key) * error.value_or(1);
    if (found.tuned_ns > 0) found.basis = error ? Basis::corrected : Basis::model;
  }
  const double time = called_ns > 0 ? called_ns : found.now_ns;
  if (time > 0 && found.tuned_ns > 0) found.gain = std::max(0.0, 1 - found.tuned_ns / time);
  return found;
}

Result<Outlook> outlook(Engine& engine, const Gemm& gemm, int threads, double called_ns) {
  return shielded([&] {
    Engine::Impl& impl = engine.impl();
    return impl.resolver.outlook(impl.with_defaults(gemm), threads, called_ns);
  });
}

}  // namespace kiln
