#include "tuner/search/range_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "generator/problem/size.h"
#include "generator/space/family.h"
#include "generator/space/summation.h"

namespace kiln {
namespace {

constexpr std::size_t kMostSteps = 2048;
// Between powers of two of this span there is a third size: tiles of 96, 192 and 384 rows exist,
// and few waves run.
constexpr std::int64_t kThreeQuartersFrom = 64, kThreeQuartersTo = 512;
constexpr std::int64_t kSparseFrom = 16;  // on a CPU
constexpr double kPromising = 1.5;        // times the fastest expected
// Half of the loss that is allowed goes into fewer kernels, half into fewer changes between them.
constexpr double kHalfLoss = 0.005;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Times by step and kernel.
class Times {
 public:
  Times(const RangeModel& model, const std::vector<std::int64_t>& steps)
      : kernels_(model.kernels.size()) {
    for (const std::int64_t size : steps)
      for (const RangeKernel& kernel : model.kernels)
        ns_.push_back(model.serves(kernel, size) ? model.expected_ns(kernel, size) : kNever);
  }
  double at(std::size_t step, std::size_t kernel) const { return ns_[step * kernels_ + kernel]; }
  std::size_t steps() const { return ns_.size() / kernels_; }

  double best(std::size_t step, const std::vector<std::size_t>& among) const {
    double least = kNever;
    for (const std::size_t kernel : among) least = std::min(least, at(step, kernel));
    return least;
  }
  /// The most that any step loses with these kernels alone.
  double loss(const std::vector<std::size_t>& among, const std::vector<double>& best) const {
    double most = 0;
    for (std::size_t step = 0; step < steps(); ++step)
      if (best[step] < kNever) most = std::max(most, this->best(step, among) / best[step] - 1);
    return most;
  }

 private:
  std::size_t kernels_;
  std::vector<double> ns_;
};

/// Leaves kernels out, each time the one that loses least.
std::vector<std::size_t> few(const Times& times, std::size_t kernels, std::size_t most,
                             const std::vector<double>& best) {
  std::vector<std::size_t> kept(kernels);
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  while (kept.size() > 1) {
    double least = kNever;
    std::size_t spared = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      std::vector<std::size_t> others = kept;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const double loss = times.loss(others, best);
      if (loss < least) least = loss, spared = i;
    }
    if (least == kNever || (least > kHalfLoss && kept.size() <= most)) break;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(spared));
  }
  return kept;
}

}  // namespace

std::vector<std::int64_t> searched_sizes(const GemmRange& range, bool on_host) {
  std::set<std::int64_t> sizes{range.first, range.last()};
  std::int64_t step = 2;
  for (std::int64_t size = 1; size < range.last(); size *= step) {
    if (on_host && size >= kSparseFrom) step = 4;
    if (size > range.first) sizes.insert(size);
    const std::int64_t between = size / 2 * 3;
    if (!on_host && size >= kThreeQuartersFrom && size < kThreeQuartersTo &&
        between > range.first && between < range.last())
      sizes.insert(between);
    if (size > range.last() / step) break;
  }
  return {sizes.begin(), sizes.end()};
}

bool RangeModel::serves(const RangeKernel& kernel, std::int64_t size) const {
  const Canonical problem = canonicalise(range_.at(size));
  return broken_rule(problem, device_, kernel.config).empty() &&
         code_class(problem, device_, kernel.config) == kernel.code &&
         (determinism_ != Determinism::batch_invariant ||
          AllowedSummation(range_.at(size), device_, determinism_).allows(kernel.config));
}

double RangeModel::expected_ns(const RangeKernel& kernel, std::int64_t size) const {
  const auto model = [&](std::int64_t at) {
    return predict_ns(canonicalise(range_.at(at)), device_, kernel.config);
  };
  const auto above = kernel.ns.lower_bound(size);
  if (above != kernel.ns.end() && above->first == size) return above->second;
  if (kernel.ns.empty()) return model(size);
  const auto error = [&](auto timed) { return std::log(timed->second / model(timed->first)); };
  double shift = 0;
  if (above == kernel.ns.begin()) {
    shift = error(above);
  } else if (above == kernel.ns.end()) {
    shift = error(std::prev(above));
  } else {
    const auto below = std::prev(above);
    const double span = std::log(static_cast<double>(above->first) / double(below->first));
    const double part = std::log(static_cast<double>(size) / double(below->first)) / span;
    shift = (1 - part) * error(below) + part * error(above);
  }
  return model(size) * std::exp(shift);
}

std::vector<std::int64_t> RangeModel::steps() const {
  std::set<std::int64_t> tiles;
  const Canonical problem = canonicalise(range_.gemm);
  for (const RangeKernel& kernel : kernels) {
    if (!broken_rule(problem, device_, kernel.config).empty()) continue;
    const Family& family = family_of(kernel.config, device_.vendor);
    if (family.tile == nullptr) continue;
    const Tile tile = family.tile(problem, device_, kernel.config);
    const bool rows = (range_.size == Size::m) != problem.swapped;
    const std::int64_t length = range_.size == Size::k ? tile.k : rows ? tile.m : tile.n;
    if (length > 0) tiles.insert(length);
  }
  std::set<std::int64_t> steps{range_.last()};
  for (const std::int64_t tile : tiles) {
    const std::int64_t count = range_.last() / tile - (range_.first - 1) / tile;
    const std::int64_t every = std::max<std::int64_t>(1, count / std::int64_t{kMostSteps});
    for (std::int64_t at = (range_.first + tile - 1) / tile * tile; at < range_.last();
         at += tile * every)
      steps.insert(at);
  }
  for (const RangeKernel& kernel : kernels)
    for (const auto& [size, ns] : kernel.ns) steps.insert(size);
  return {steps.begin(), steps.end()};
}

std::vector<std::int64_t> RangeModel::timed_sizes(const std::vector<std::int64_t>& sizes) const {
  std::set<std::int64_t> timed(sizes.begin(), sizes.end());
  const std::vector<std::int64_t> all = steps();
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    for (const double part : {0.25, 0.5, 0.75}) {
      const double wanted =
          std::exp(std::log(double(sizes[i])) * (1 - part) + std::log(double(sizes[i + 1])) * part);
      const auto step = std::ranges::lower_bound(all, std::llround(wanted));
      if (step != all.end() && *step < sizes[i + 1]) timed.insert(*step);
    }
  return {timed.begin(), timed.end()};
}

std::vector<std::size_t> RangeModel::promising(std::int64_t size) const {
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (serves(kernels[i], size)) ranked.emplace_back(expected_ns(kernels[i], size), i);
  std::ranges::sort(ranked);
  std::vector<std::size_t> found;
  for (const auto& [ns, kernel] : ranked)
    if (ns <= kPromising * ranked.front().first) found.push_back(kernel);
  return found;
}

std::vector<RangeChoice> RangeModel::choose(std::size_t most) const {
  const std::vector<std::int64_t> sizes = steps();
  std::vector<RangeChoice> table;
  if (kernels.empty()) return table;
  const Times times(*this, sizes);
  std::vector<std::size_t> all(kernels.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<double> best;
  for (std::size_t step = 0; step < sizes.size(); ++step) best.push_back(times.best(step, all));
  const std::vector<std::size_t> kept = few(times, kernels.size(), most, best);
  for (std::size_t step = 0; step < sizes.size(); ++step) {
    std::size_t fastest = kept.front();
    for (const std::size_t kernel : kept)
      if (times.at(step, kernel) < times.at(step, fastest)) fastest = kernel;
    const double ns = times.at(step, fastest);
    if (ns == kNever) continue;
    const bool stays =
        !table.empty() && times.at(step, table.back().kernel) <= ns * (1 + kHalfLoss);
    if (stays)
      table.back() = {sizes[step], table.back().kernel, times.at(step, table.back().kernel)};
    else if (!table.empty() && table.back().kernel == fastest)
      table.back() = {sizes[step], fastest, ns};
    else
      table.push_back({sizes[step], fastest, ns});
  }
  if (!table.empty()) table.back().last = range_.last();
  return table;
}

}  // namespace kiln
