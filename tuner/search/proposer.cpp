#include "tuner/search/proposer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

namespace kiln {
namespace {

constexpr std::size_t kMaxAxes = Config::kMostKeys;
// An effect seen on n candidates is trusted n / (n + this): one slow sample must not damn a value.
constexpr double kShrinkage = 1.0;
// A candidate that failed teaches as much as one twice as far above its prediction as the worst
// that ran: beside the model alone it could look good, since the model may be off by any factor.
const double kFailurePenalty = std::log(2.0);
constexpr int kSweeps = 8;

std::vector<int> point_of(const Config& config) {
  std::vector<int> point{static_cast<int>(config.family())};
  const std::size_t axes = keys_of_family(config.family()).size();
  point.insert(point.end(), config.values().begin(),
               config.values().begin() + static_cast<std::ptrdiff_t>(axes));
  return point;
}

std::size_t differing_axes(const std::vector<int>& x, const std::vector<int>& y) {
  if (x[0] != y[0]) return kMaxAxes;
  std::size_t count = 0;
  for (std::size_t i = 1; i < x.size(); ++i) count += x[i] != y[i];
  return count;
}

// One field changed, or two: rules couple fields (mc is a multiple of mr), so single steps alone
// would leave islands.
bool is_neighbour(const std::vector<int>& x, const std::vector<int>& y) {
  const std::size_t axes = differing_axes(x, y);
  return axes == 1 || axes == 2;
}

}  // namespace

Proposer::Proposer(const SearchSpace& space, std::uint64_t seed)
    : space_(space),
      seen_(space.legal.size(), false),
      remaining_(space.legal.size()),
      effects_(kFamilyNames.size() * kMaxAxes),
      family_effect_(kFamilyNames.size(), 0.0),
      state_(seed) {
  std::vector<std::map<int, int>> numbers(effects_.size());  // of the values, in order of sight
  std::map<std::vector<int>, std::size_t> codes;
  for (std::size_t i = 0; i < space.legal.size(); ++i) {
    Point point = point_of(space.legal[i]);
    for (std::size_t axis = 0; axis + 1 < point.size(); ++axis) {
      const std::size_t slot = std::size_t(point[0]) * kMaxAxes + axis;
      auto& known = numbers[slot];
      const auto number = known.try_emplace(point[axis + 1], int(known.size())).first->second;
      point[axis + 1] = number;
      effects_[slot].resize(known.size());
    }
    points_.push_back(std::move(point));
    log_predicted_.push_back(
        std::log(std::max(1.0, predict_ns(space.problem, space.device, space.legal[i]))));
    codes_.push_back(codes.try_emplace(code_fields(space.legal[i]), codes.size()).first->second);
    index_.emplace(space.legal[i], i);
  }
  made_.assign(codes.size(), false);
}

double Proposer::predicted_ns(const Config& config) const {
  const auto it = index_.find(config);
  return it == index_.end() ? predict_ns(space_.problem, space_.device, config)
                            : std::exp(log_predicted_[it->second]);
}

void Proposer::learn(const Measured& row) {
  const auto it = index_.find(row.config);
  if (it == index_.end()) return;
  if (!seen_[it->second]) {
    seen_[it->second] = true;
    --remaining_;
  }
  made_[codes_[it->second]] = true;
  const double ns = row.ok() ? row.comparable_ns() : 0;
  observations_.push_back({it->second, ns});
}

// Backfitting of log(measured / predicted) on one effect a family and one an axis value: enough to
// learn that "kc=512 is slow here", from a few dozen points, without a solver.
void Proposer::fit() {
  for (auto& axis : effects_) std::fill(axis.begin(), axis.end(), 0.0);
  std::fill(family_effect_.begin(), family_effect_.end(), 0.0);
  std::vector<double> residual;
  double worst = 0;
  for (const Observation& o : observations_) {
    residual.push_back(o.ns > 0 ? std::log(o.ns) - log_predicted_[o.index] : 0);
    worst = std::max(worst, residual.back());
  }
  std::vector<std::size_t> all;
  std::vector<std::vector<std::size_t>> of_family(family_effect_.size());
  for (std::size_t i = 0; i < residual.size(); ++i) {
    if (observations_[i].ns == 0) residual[i] = worst + kFailurePenalty;
    all.push_back(i);
    of_family[std::size_t(points_[observations_[i].index][0])].push_back(i);
  }

  const auto refit = [&](std::vector<double>& effect, const std::vector<std::size_t>& rows,
                         std::size_t place) {
    const auto value_of = [&](std::size_t row) {
      return std::size_t(points_[observations_[row].index][place]);
    };
    std::vector<std::pair<double, int>> sums(effect.size());
    for (const std::size_t row : rows) {
      const std::size_t value = value_of(row);
      residual[row] += effect[value];
      sums[value].first += residual[row];
      ++sums[value].second;
    }
    for (std::size_t value = 0; value < sums.size(); ++value)
      if (const auto& [sum, count] = sums[value]; count > 0)
        effect[value] = sum / (count + kShrinkage);
    for (const std::size_t row : rows) residual[row] -= effect[value_of(row)];
  };

  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    refit(family_effect_, all, 0);
    for (std::size_t family = 0; family < of_family.size(); ++family)
      for (std::size_t axis = 0; axis < kMaxAxes && !of_family[family].empty(); ++axis)
        if (auto& effect = effects_[family * kMaxAxes + axis]; !effect.empty())
          refit(effect, of_family[family], axis + 1);
  }
}

double Proposer::corrected(std::size_t index) const {
  const Point& p = points_[index];
  double score = log_predicted_[index] + family_effect_[std::size_t(p[0])];
  const auto* effects = &effects_[std::size_t(p[0]) * kMaxAxes];
  for (std::size_t axis = 0; axis + 1 < p.size(); ++axis)
    score += effects[axis][std::size_t(p[axis + 1])];
  return score;
}

std::uint64_t Proposer::random() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

void Proposer::take(std::size_t index, Picks& picks) {
  seen_[index] = true;
  made_[codes_[index]] = true;
  --remaining_;
  picks.push_back(index);
}

// Best score first; twins of what this group already holds wait, unless nothing else is left: four
// configs that differ in the prefetch distance alone tell no more than one.
void Proposer::take_ranked(const std::vector<double>& score, std::size_t count, Picks& picks) {
  // One config of a code makes the others cheap: only the best of each new code stands here.
  std::vector<std::optional<std::size_t>> best(made_.size());
  for (std::size_t i = 0; i < score.size(); ++i)
    if (auto& slot = best[codes_[i]]; is_new(i) && (!slot || score[i] < score[*slot])) slot = i;
  std::vector<std::size_t> order;
  for (const auto& slot : best)
    if (slot) order.push_back(*slot);
  const std::size_t head = std::min(order.size(), count * 32 + 64);
  std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(head), order.end(),
                    [&](std::size_t x, std::size_t y) {
                      return std::pair(score[x], x) < std::pair(score[y], y);
                    });
  const std::size_t goal = picks.size() + count;
  for (const std::size_t apart : {3u, 2u, 1u})
    for (std::size_t i = 0; i < head && picks.size() < goal; ++i) {
      const bool twin = std::any_of(picks.begin(), picks.end(), [&](std::size_t p) {
        return differing_axes(points_[p], points_[order[i]]) < apart;
      });
      if (!twin && is_new(order[i])) take(order[i], picks);
    }
}

void Proposer::take_first_of_families(std::size_t count, Picks& picks) {
  std::array<std::optional<std::size_t>, kFamilyNames.size()> best;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    auto& slot = best[std::size_t(points_[i][0])];
    if (is_new(i) && (!slot || log_predicted_[i] < log_predicted_[*slot])) slot = i;
  }
  std::vector<std::size_t> firsts;
  for (const auto& slot : best)
    if (slot) firsts.push_back(*slot);
  std::sort(firsts.begin(), firsts.end(),
            [&](std::size_t x, std::size_t y) { return log_predicted_[x] < log_predicted_[y]; });
  for (std::size_t i = 0; i < firsts.size() && i < count; ++i) take(firsts[i], picks);
}

// What the model thinks best may be all of one kind, from which nothing is learnt of the others (44
// of 48 configs had rows_d, which was 12 % behind): of each flag of the best's family whose other
// value no pick has, the best with that, nearest first.
void Proposer::take_contrasts(std::size_t count, Picks& picks) {
  if (picks.empty()) return;
  const double most = log_predicted_[picks.front()] + std::log(1.5);
  const int family = points_[picks.front()][0];
  std::vector<std::pair<std::size_t, int>> missing;  // places in a point, and values there
  for (std::size_t axis = 0; axis < kMaxAxes; ++axis)
    if (effects_[std::size_t(family) * kMaxAxes + axis].size() == 2)
      for (const int value : {0, 1}) missing.emplace_back(axis + 1, value);
  const auto has = [&](std::size_t i, std::pair<std::size_t, int> wanted) {
    return points_[i][0] == family && points_[i][wanted.first] == wanted.second;
  };
  for (std::size_t n = 0; n < count; ++n) {
    std::erase_if(missing, [&](const auto& wanted) {
      return std::any_of(picks.begin(), picks.end(), [&](std::size_t p) { return has(p, wanted); });
    });
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < points_.size(); ++i)
      if (is_new(i) && log_predicted_[i] <= most &&
          (!best || log_predicted_[i] < log_predicted_[*best]) &&
          std::any_of(missing.begin(), missing.end(),
                      [&](const auto& wanted) { return has(i, wanted); }))
        best = i;
    if (!best) return;
    take(*best, picks);
  }
}

std::vector<std::size_t> Proposer::fastest_seen() const {
  constexpr std::size_t kFastest = 3;
  std::vector<Observation> best;
  for (const Observation& o : observations_)
    if (o.ns > 0) best.push_back(o);
  const std::size_t top = std::min(kFastest, best.size());
  std::partial_sort(best.begin(), best.begin() + std::ptrdiff_t(top), best.end(),
                    [](const Observation& x, const Observation& y) {
                      return std::pair(x.ns, x.index) < std::pair(y.ns, y.index);
                    });
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < top; ++i) out.push_back(best[i].index);
  return out;
}

// New code from the neighbours of one of the three best, half by what was learnt, half by lot;
// single steps count as nearer.
void Proposer::take_neighbours(std::size_t count, Picks& picks) {
  const std::vector<std::size_t> best = fastest_seen();
  if (best.empty()) return take_random(count, picks);
  for (std::size_t n = 0; n < count; ++n) {
    const Point& centre = points_[best[random() % best.size()]];
    std::vector<std::pair<double, std::size_t>> near;
    for (std::size_t i = 0; i < points_.size(); ++i)
      if (is_new(i) && is_neighbour(centre, points_[i]))
        near.emplace_back(corrected(i) + 0.02 * double(differing_axes(centre, points_[i])), i);
    if (near.empty()) {
      take_random(1, picks);
    } else if (n % 2 == 0) {
      take(std::min_element(near.begin(), near.end())->second, picks);
    } else {
      take(near[random() % near.size()].second, picks);
    }
  }
}

void Proposer::take_random(std::size_t count, Picks& picks) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < seen_.size(); ++i)
    if (is_new(i)) open.push_back(i);
  for (std::size_t n = 0; n < count && !open.empty();) {
    const std::size_t at = random() % open.size();
    if (is_new(open[at])) {
      take(open[at], picks);
      ++n;
    }
    open[at] = open.back();
    open.pop_back();
  }
}

// What needs no compiler: half by score over all that was compiled, half from the neighbours of the
// three best, so that a wrong model does not keep their other divisions from being tried.
void Proposer::take_of_made(const std::vector<double>& score, std::size_t count, Picks& picks) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < score.size(); ++i)
    if (!seen_[i] && made_[codes_[i]]) open.push_back(i);
  const std::size_t goal = picks.size() + std::min(count, open.size());
  for (const std::size_t centre : fastest_seen()) {
    std::vector<std::size_t> near;
    for (const std::size_t i : open)
      if (!seen_[i] && codes_[i] == codes_[centre] && is_neighbour(points_[centre], points_[i]))
        near.push_back(i);
    for (std::size_t n = 0; n < count / 6 && !near.empty() && picks.size() < goal; ++n) {
      const std::size_t at = random() % near.size();
      take(near[at], picks);
      near[at] = near.back();
      near.pop_back();
    }
  }
  std::erase_if(open, [&](std::size_t i) { return seen_[i]; });
  std::sort(open.begin(), open.end(), [&](std::size_t x, std::size_t y) {
    return std::pair(score[x], x) < std::pair(score[y], y);
  });
  // Of configs of one binary that the model cannot tell apart, one a group: what it tells is the
  // others' too.
  std::set<std::pair<std::size_t, double>> told;
  for (const bool again : {false, true})
    for (const std::size_t i : open)
      if (picks.size() < goal && !seen_[i] &&
          (told.emplace(codes_[i], log_predicted_[i]).second || again))
        take(i, picks);
}

std::vector<Config> Proposer::next(int codes, int more) {
  Picks picks;
  const auto wanted = static_cast<std::size_t>(codes);
  std::vector<double> score = log_predicted_;
  if (observations_.empty()) {
    take_first_of_families(wanted, picks);
    take_contrasts((wanted - picks.size() + 1) / 2, picks);
    take_ranked(score, wanted - picks.size(), picks);
  } else {
    fit();
    for (std::size_t i = 0; i < score.size(); ++i) score[i] = seen_[i] ? 0 : corrected(i);
    // Of eight: four by what was learnt, one by the model alone, two near the best, one anywhere.
    const std::size_t explore = wanted / 4 + wanted / 8;
    take_ranked(score, wanted - explore - wanted / 8, picks);
    take_ranked(log_predicted_, wanted / 8, picks);
    take_neighbours(wanted / 4, picks);
  }
  if (picks.size() < wanted) take_random(wanted - picks.size(), picks);
  // Where no new code is left, old code has the whole group.
  take_of_made(score, static_cast<std::size_t>(more) + (wanted - picks.size()), picks);
  std::vector<Config> out;
  for (const std::size_t i : picks) out.push_back(space_.legal[i]);
  return out;
}

}  // namespace kiln
