#include "tuner/search/range_choice.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

#include "generator/problem/size.h"
#include "generator/space/family.h"
#include "generator/space/space.h"
#include "generator/space/summation.h"
#include "runtime/backend.h"
#include "tuner/search/proposer.h"

namespace kiln {
namespace {

// Steps that lie closer than this part of the size decide alike.
constexpr std::int64_t kCloseSteps = 128;
// Powers of two between these are searched on a GPU: tiles of 64 to 256 rows, and few waves.
constexpr std::int64_t kDenseFrom = 64, kDenseTo = 1024;
// On a CPU tiles have so few rows that each of these sizes has one that suits it.
constexpr std::int64_t kEachUpTo = 8;
// A kernel within this of the fastest expected is worth a timing, and one that came within this of
// the fastest at some size may have a place in the table.
constexpr double kPromising = 1.25, kEligible = 1.10;
constexpr std::size_t kMostPromising = 24;
// Of what a search would propose for a size, tiles that have a kernel or two are left out: where
// sizes differ it is the tile that another one suits better.
constexpr int kOfOneTile = 2, kProposedForOne = 8;
// Half of the loss that is allowed goes into fewer kernels, half into fewer changes between them.
constexpr double kHalfLoss = 0.005;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a kernel is expected to take at any size, from the model's time there.
class Expected {
 public:
  Expected(const RangeModel& model, const RangeKernel& kernel) : otherwise_(kernel.error) {
    for (const auto& [size, ns] : kernel.ns)
      timed_.push_back({size, ns, std::log(ns / model.predicted_ns(kernel, size))});
  }
  double ns(std::int64_t size, double predicted) const {
    const auto above = std::ranges::lower_bound(timed_, size, {}, &Timed::size);
    if (above != timed_.end() && above->size == size) return above->ns;
    double error = otherwise_;
    if (above == timed_.end() && !timed_.empty()) {
      error = timed_.back().error;
    } else if (above == timed_.begin() && !timed_.empty()) {
      error = above->error;
    } else if (!timed_.empty()) {
      const auto below = std::prev(above);
      const double span = std::log(double(above->size) / double(below->size));
      const double part = std::log(double(size) / double(below->size)) / span;
      error = (1 - part) * below->error + part * above->error;
    }
    return predicted * std::exp(error);
  }

 private:
  struct Timed {
    std::int64_t size;
    double ns, error;  // error: log of measured over predicted
  };
  std::vector<Timed> timed_;
  double otherwise_;
};

/// Times by step and kernel.
class Times {
 public:
  Times(const RangeModel& model, const std::vector<std::size_t>& kernels,
        const std::vector<std::int64_t>& steps)
      : model_(model), steps_(steps), numbers_(kernels), ns_(kernels.size() * steps.size()) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const RangeKernel& kernel = model.kernels[kernels[i]];
      const Expected expected(model, kernel);
      for (std::size_t step = 0; step < steps.size(); ++step)
        time(step, i) = model.allows(kernel, steps[step])
                            ? expected.ns(steps[step], model.predicted_ns(kernel, steps[step]))
                            : kNever;
    }
    find_best();
  }
  double at(std::size_t step, std::size_t kernel) const {
    return ns_[step * numbers_.size() + kernel];
  }
  /// Whether the kernel serves a step. Where it does not its time is never from then on, there and
  /// at all other steps of which that is so: that costs too much to be asked of every kernel.
  bool serves(std::size_t step, std::size_t kernel) {
    if (model_.serves(model_.kernels[numbers_[kernel]], steps_[step])) return true;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (!model_.serves(model_.kernels[numbers_[kernel]], steps_[i])) time(i, kernel) = kNever;
    find_best();
    return false;
  }

  /// For each group of kernels the most that any step loses without it. `group`: of each kernel;
  /// `kept`: which take part.
  std::map<std::size_t, double> losses(const std::vector<std::size_t>& kept,
                                       const std::vector<std::size_t>& group) const {
    std::map<std::size_t, double> most;
    for (const std::size_t kernel : kept) most.emplace(group[kernel], 0.0);
    for (std::size_t step = 0; step < best_.size(); ++step) {
      if (best_[step] == kNever) continue;
      std::size_t fastest = kept.front();
      for (const std::size_t kernel : kept)
        if (at(step, kernel) < at(step, fastest)) fastest = kernel;
      double next = kNever;
      for (const std::size_t kernel : kept)
        if (group[kernel] != group[fastest]) next = std::min(next, at(step, kernel));
      double& loss = most[group[fastest]];
      loss = std::max(loss, next / best_[step] - 1);
    }
    return most;
  }

 private:
  double& time(std::size_t step, std::size_t kernel) {
    return ns_[step * numbers_.size() + kernel];
  }
  void find_best() {
    best_.assign(steps_.size(), kNever);
    for (std::size_t step = 0; step < steps_.size(); ++step)
      for (std::size_t i = 0; i < numbers_.size(); ++i)
        best_[step] = std::min(best_[step], at(step, i));
  }

  const RangeModel& model_;
  const std::vector<std::int64_t>& steps_;
  const std::vector<std::size_t> numbers_;  // of the kernels, in the model
  std::vector<double> ns_, best_;
};

/// Leaves groups of kernels out, each time the one without which least is lost, as long as
/// `may_go`, asked with how many there are and with that loss, lets one go.
template <typename MayGo>
void leave_out(const Times& times, const std::vector<std::size_t>& group, const MayGo& may_go,
               std::vector<std::size_t>& kept) {
  for (;;) {
    const auto losses = times.losses(kept, group);
    if (losses.size() < 2) return;
    const auto least = std::ranges::min_element(losses, {}, [](const auto& l) { return l.second; });
    if (least->second == kNever || !may_go(losses.size(), least->second)) return;
    std::erase_if(kept, [&](std::size_t kernel) { return group[kernel] == least->first; });
  }
}

/// Of each step the fastest of `kept`, or the one before where that loses little.
std::vector<RangeChoice> table_of(const Times& times, const std::vector<std::int64_t>& sizes,
                                  const std::vector<std::size_t>& kept) {
  std::vector<RangeChoice> table;
  for (std::size_t step = 0; step < sizes.size(); ++step) {
    const std::size_t fastest = *std::ranges::min_element(
        kept, {}, [&](std::size_t kernel) { return times.at(step, kernel); });
    const double ns = times.at(step, fastest);
    if (ns == kNever) continue;
    const bool stays =
        !table.empty() && times.at(step, table.back().kernel) <= ns * (1 + kHalfLoss);
    const std::size_t serving = stays ? table.back().kernel : fastest;
    if (table.empty() || table.back().kernel != serving) table.push_back({});
    table.back() = {sizes[step], serving, times.at(step, serving)};
  }
  return table;
}

bool all_serve(Times& times, const std::vector<std::int64_t>& sizes,
               const std::vector<RangeChoice>& table) {
  auto choice = table.begin();
  for (std::size_t step = 0; step < sizes.size() && choice != table.end(); ++step) {
    while (choice != table.end() && choice->last < sizes[step]) ++choice;
    if (choice == table.end() || times.at(step, choice->kernel) == kNever) continue;
    if (!times.serves(step, choice->kernel)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> searched_sizes(const GemmRange& range, bool on_host) {
  std::set<std::int64_t> sizes{range.first, range.last()};
  std::int64_t step = 4;
  for (std::int64_t size = 1; size < range.last(); size *= step) {
    if (size > range.first) sizes.insert(size);
    step = !on_host && size >= kDenseFrom && size < kDenseTo ? 2 : 4;
    if (size > range.last() / step) break;
  }
  return {sizes.begin(), sizes.end()};
}

Problem RangeModel::problem_at(std::int64_t size) const {
  return Problem::of(range_.at(size)).value();
}

bool RangeModel::allows(const RangeKernel& kernel, std::int64_t size) const {
  const auto problem = Problem::of(range_.at(size));
  return problem && broken_rule(*problem, device_, kernel.config).empty();
}

double RangeModel::predicted_ns(const RangeKernel& kernel, std::int64_t size) const {
  return predict_ns(problem_at(size), device_, kernel.config);
}

bool RangeModel::serves(const RangeKernel& kernel, std::int64_t size) const {
  const Problem problem = problem_at(size);
  return broken_rule(problem, device_, kernel.config).empty() &&
         code_class(problem, device_, kernel.config) == kernel.code &&
         (determinism_ != Determinism::batch_invariant ||
          AllowedSummation(problem, device_, determinism_).allows(kernel.config));
}

double RangeModel::expected_ns(const RangeKernel& kernel, std::int64_t size) const {
  return Expected(*this, kernel).ns(size, predicted_ns(kernel, size));
}

void RangeModel::add(const Config& config, std::int64_t size, double ns) {
  const Problem problem = problem_at(size);
  if (!broken_rule(problem, device_, config).empty()) return;
  const auto known = [&](const Config& asked, const CodeClass& code) {
    return std::ranges::find_if(kernels, [&](const RangeKernel& kernel) {
      return kernel.config == asked && kernel.code == code;
    });
  };
  const CodeClass code = code_class(problem, device_, config);
  if (const auto kernel = known(config, code); kernel != kernels.end()) {
    kernel->ns[size] = ns;
    return;
  }
  kernels.push_back({config, code, {{size, ns}}});
  const Family& family = family_of(config, device_.vendor);
  if (family.ragged == nullptr) return;
  const Config ragged = family.ragged(config);
  if (!broken_rule(problem, device_, ragged).empty()) return;
  const CodeClass its_code = code_class(problem, device_, ragged);
  if (known(ragged, its_code) != kernels.end()) return;
  const double error = std::log(ns / predict_ns(problem, device_, config));
  kernels.push_back({ragged, its_code, {}, error});
}

std::int64_t RangeModel::tile_length(const RangeKernel& kernel, std::int64_t size) const {
  const Problem problem = problem_at(size);
  const Family& family = family_of(kernel.config, device_.vendor);
  if (family.tile == nullptr || !broken_rule(problem, device_, kernel.config).empty()) return 0;
  const Tile tile = family.tile(problem, device_, kernel.config);
  const bool rows = (range_.size == Size::m) != problem.swapped;
  return range_.size == Size::k ? tile.k : rows ? tile.m : tile.n;
}

std::vector<std::int64_t> RangeModel::steps() const {
  std::set<std::int64_t> tiles, steps{range_.last()};
  for (const RangeKernel& kernel : kernels) {
    if (const std::int64_t length = tile_length(kernel, range_.last()); length > 0)
      tiles.insert(length);
    for (const auto& [size, ns] : kernel.ns) {
      steps.insert(size);
      // Some code is for this size alone, some for no more rows than its tile has: beyond that edge
      // another kernel serves.
      const std::int64_t length = tile_length(kernel, size);
      const std::int64_t edge = length == 0 ? size - 1 : length;
      if (edge >= range_.first && edge < range_.last()) steps.insert(edge);
    }
  }
  for (std::int64_t at = range_.first; at < range_.last();) {
    steps.insert(at);
    std::int64_t end = range_.last();  // of the next tile that is not close
    const std::int64_t from = at + at / kCloseSteps;
    for (const std::int64_t tile : tiles) end = std::min(end, (from + tile - 1) / tile * tile);
    steps.insert(end);
    at = end + 1;
  }
  return {steps.begin(), steps.end()};
}

std::vector<std::int64_t> RangeModel::timed_sizes(const std::vector<std::int64_t>& sizes,
                                                  int per_doubling) const {
  const std::vector<std::int64_t> all = steps();
  const std::set<std::int64_t> searched(sizes.begin(), sizes.end());
  // A GPU's tiles are all larger than these: few sizes do.
  const std::int64_t dense_from = on_host(device_) ? 1 : kDenseFrom;
  const double first = std::log2(double(sizes.front())), last = std::log2(double(sizes.back()));
  std::vector<std::int64_t> timed;
  std::set<std::int64_t> seen;
  const auto add = [&](std::int64_t size) {
    if (!searched.contains(size) && seen.insert(size).second) timed.push_back(size);
  };
  if (on_host(device_))
    for (const std::int64_t size : all)
      if (size <= kEachUpTo) add(size);
  for (int every = per_doubling * 2; every > 0; every /= 2)
    for (int i = 0; first + double(i) / per_doubling < last; i += every) {
      const auto wanted = std::llround(std::ceil(std::exp2(first + double(i) / per_doubling)));
      const auto step = std::ranges::lower_bound(all, wanted);
      if (step == all.end() || (every < per_doubling && *step < dense_from)) continue;
      add(*step);
    }
  return timed;
}

std::vector<std::size_t> RangeModel::promising(std::int64_t size) const {
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (serves(kernels[i], size)) ranked.emplace_back(expected_ns(kernels[i], size), i);
  std::ranges::sort(ranked);
  std::vector<std::size_t> found;
  for (const auto& [ns, kernel] : ranked)
    if (ns <= kPromising * ranked.front().first && found.size() < kMostPromising)
      found.push_back(kernel);
  return found;
}

std::vector<Config> RangeModel::fresh(std::int64_t size, std::uint64_t seed, int codes,
                                      int more) const {
  const auto space = space_for(problem_at(size), device_, determinism_);
  if (!space) return {};
  Proposer proposer(*space, seed);
  std::map<std::vector<std::int64_t>, int> of_tile;
  const auto tile_of = [&](const Config& config) {
    const Family& family = family_of(config, device_.vendor);
    const Tile tile = family.tile ? family.tile(space->problem, device_, config) : Tile{};
    return std::vector<std::int64_t>{std::int64_t(config.family()), tile.m, tile.n};
  };
  for (const RangeKernel& kernel : kernels)
    if (allows(kernel, size)) {
      const double ns = expected_ns(kernel, size);
      proposer.learn({.config = kernel.config, .outcome = Timing{.median_ns = ns}});
      ++of_tile[tile_of(kernel.config)];
    }
  std::vector<Config> picked;
  std::vector<Config> same_code = proposer.next(0, more);
  for (Config& config : proposer.next(codes * kProposedForOne, 0))
    if (int(picked.size()) < codes && ++of_tile[tile_of(config)] <= kOfOneTile)
      picked.push_back(std::move(config));
  std::ranges::move(same_code, std::back_inserter(picked));
  return picked;
}

std::vector<RangeChoice> RangeModel::choose(std::size_t most) const {
  std::map<std::int64_t, double> fastest;  // of those timed at a size
  for (const RangeKernel& kernel : kernels)
    for (const auto& [size, ns] : kernel.ns) {
      const auto it = fastest.try_emplace(size, ns).first;
      it->second = std::min(it->second, ns);
    }
  std::vector<std::size_t> eligible, binary;
  std::map<std::vector<int>, std::size_t> binaries;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (std::ranges::any_of(kernels[i].ns, [&](const auto& timed) {
          return timed.second <= kEligible * fastest.at(timed.first);
        })) {
      eligible.push_back(i);
      binary.push_back(
          binaries.try_emplace(code_fields(kernels[i].config), binaries.size()).first->second);
    }
  if (eligible.empty()) return {};
  const std::vector<std::int64_t> sizes = steps();
  Times times(*this, eligible, sizes);
  std::vector<RangeChoice> table;
  do {
    std::vector<std::size_t> kept(eligible.size());
    std::iota(kept.begin(), kept.end(), std::size_t{0});
    const std::vector<std::size_t> each = kept;
    leave_out(
        times, each, [](std::size_t, double loss) { return loss <= kHalfLoss; }, kept);
    leave_out(
        times, binary, [&](std::size_t left, double) { return left > most; }, kept);
    table = table_of(times, sizes, kept);
  } while (!all_serve(times, sizes, table));
  for (RangeChoice& choice : table) choice.kernel = eligible[choice.kernel];
  if (!table.empty()) table.back().last = range_.last();
  return table;
}

}  // namespace kiln
