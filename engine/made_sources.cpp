// Plans of code that is made for the problem: configs of its neighbours, and the model's choice.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "generator/space/summation.h"

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

std::optional<SharedPlan> NearestSource::find(const Miss& miss) {
  // Nothing is compiled that the machine would not load.
  if (engine_.admission.machine_refused()) return std::nullopt;
  const Problem& problem = miss.problem;
  const BestKey key = engine_.key_of(miss.gemm(), miss.threads);
  std::vector<Neighbour> near;
  const auto add = [&](const BestKey& like) {
    for (const Record& record : engine_.store->winners().tuned_like(like, engine_.now)) {
      const double d = distance(record.key.gemm, miss.gemm());
      if (d <= kFarthest) near.push_back({record.measured.config, record.key.gemm, d});
    }
  };
  add(key);
  // A new expression: with what was tuned for the product alone.
  if (const auto bare = without_expression(key); bare && near.empty()) add(*bare);
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
    auto built = engine_.admission.admitted(key, n.config);
    if (!built) {
      engine_.warn(tl::unexpected(built.error()));
      if (engine_.admission.machine_refused()) break;  // the next one, too
      continue;
    }
    if (auto plan = bound(miss, Match::nearest, n.config,
                          fmt::format("the best of {} tuned neighbours by the model: tuned for {} "
                                      "(log distance {:.2f})",
                                      near.size(), text(n.gemm), n.distance),
                          built->kernel))
      return plan;
  }
  return std::nullopt;
}

std::optional<SharedPlan> ModelSource::find(const Miss& miss) {
  if (engine_.admission.machine_refused()) return std::nullopt;
  const BestKey key = engine_.key_of(miss.gemm(), miss.threads);
  for (const Config& config : model_choices(key, miss.problem)) {
    const auto built = engine_.admission.admitted(key, config);
    if (!built) {
      engine_.warn(tl::unexpected(built.error()));
      if (engine_.admission.machine_refused()) break;
      continue;
    }
    if (auto plan = bound(miss, Match::model, config,
                          "no tuned neighbour: the analytic model's first choice", built->kernel))
      return plan;
  }
  return std::nullopt;
}

}  // namespace kiln
