#include "tuner/measure/load_race.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "tuner/measure/measure.h"

namespace kiln {
namespace {

// Boards average power over tens of milliseconds before they change the clock: two readings that
// agree may both be from before.
constexpr double kSettleNs = 100e6;
constexpr int kAgreeing = 3, kMostSettling = 20, kBlindSettling = 10;
constexpr double kSettled = 0.01;
constexpr double kLeadShare = 0.25;
/// Of the budget, what is planned, and what loading may take of that: calls get slower as the clock
/// falls, and sensors take time to read.
constexpr double kPlanned = 0.9, kSettleShare = 0.25;

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

bool agree(std::span<const int> clocks) {
  const auto [low, high] = std::minmax_element(clocks.begin(), clocks.end());
  return *low > 0 && *high - *low <= kSettled * *high;
}

/// What was measured of one contender.
struct Measurements {
  std::vector<double> ns_a_call;
  std::vector<double> joules, calls;  // of the blocks of which both readings were told
  std::vector<int> clocks;

  Timing timing() const {
    Timing timing = timing_of(ns_a_call);
    if (sum_of(calls) > 0) timing.joules = sum_of(joules) / sum_of(calls);
    if (clocks.empty()) return timing;
    std::vector<int> sorted = clocks;
    std::sort(sorted.begin(), sorted.end());
    timing.sm_mhz = sorted[sorted.size() / 2];
    return timing;
  }
};

class Race {
 public:
  Race(const std::vector<RunBlock>& contenders, const gpu::Telemetry* sensors,
       const LoadRules& rules)
      : contenders_(contenders),
        sensors_(sensors),
        rules_(rules),
        watch_(sensors),
        measured_(contenders.size()) {
    planned_ns_ = kPlanned * rules.budget_ns;
    settle_ns_ = std::min(kSettleNs, kSettleShare * planned_ns_ / kMostSettling);
    const double blocks = double(contenders.size()) * rules.min_rounds;
    block_ns_ = std::min(rules.block_ns, (planned_ns_ - kMostSettling * settle_ns_) / blocks);
  }

  Result<LoadRace> run() {
    const auto settled = settle();
    if (!settled) return tl::unexpected(settled.error());
    std::vector<std::size_t> order(contenders_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int round = 1; round <= rules_.rounds; ++round) {
      if (round > rules_.min_rounds && spent_ns_ + round_ns() > planned_ns_) break;
      for (const std::size_t who : order)
        if (const Status taken = take(who); !taken) return tl::unexpected(taken.error());
      std::rotate(order.begin(), order.begin() + 1, order.end());
      if (round >= rules_.min_rounds && rules_.stop && rules_.stop(timings())) break;
    }
    LoadRace race{timings(), watch_.conditions()};
    race.conditions.under_load = true;
    race.conditions.settled = *settled;
    return race;
  }

 private:
  double round_ns() const { return double(contenders_.size()) * block_ns_; }

  std::vector<Timing> timings() const {
    std::vector<Timing> all;
    for (const Measurements& one : measured_) all.push_back(one.timing());
    return all;
  }

  Result<LoadBlock> run_block(
      std::size_t who, double ns, const std::function<void()>& meanwhile = [] {}) {
    auto block = contenders_[who](ns, meanwhile);
    if (block) spent_ns_ += block->ns;
    return block;
  }

  /// Loads the device. False: its clock did not settle.
  Result<bool> settle() {
    if (rules_.on_turn) rules_.on_turn(0);
    std::vector<int> clocks;
    for (int i = 0; i < kMostSettling; ++i) {
      int mhz = 0;
      const auto block = run_block(0, settle_ns_, [&] {
        if (sensors_ != nullptr) mhz = sensors_->sm_mhz();
      });
      if (!block) return tl::unexpected(block.error());
      clocks.push_back(mhz);
      const bool blind = clocks.back() == 0;
      if (blind && i + 1 == kBlindSettling) return true;
      if (!blind && clocks.size() >= kAgreeing && agree(std::span(clocks).last(kAgreeing)))
        return true;
    }
    return false;
  }

  Status take(std::size_t who) {
    if (rules_.on_turn) rules_.on_turn(who);
    if (const auto lead = run_block(who, kLeadShare * block_ns_); !lead)
      return tl::unexpected(lead.error());
    const auto joules = [&] { return sensors_ == nullptr ? std::nullopt : sensors_->joules(); };
    const std::optional<double> before = joules();
    int mhz = 0;
    const auto block =
        run_block(who, (1 - kLeadShare) * block_ns_, [&] { mhz = watch_.read_under_load(); });
    if (!block) return tl::unexpected(block.error());
    const std::optional<double> after = joules();
    Measurements& to = measured_[who];
    to.ns_a_call.push_back(block->ns / double(block->calls));
    if (before && after && *after >= *before) {
      to.joules.push_back(*after - *before);
      to.calls.push_back(double(block->calls));
    }
    if (mhz > 0) to.clocks.push_back(mhz);
    return {};
  }

  const std::vector<RunBlock>& contenders_;
  const gpu::Telemetry* sensors_;
  const LoadRules& rules_;
  ClockWatch watch_;
  std::vector<Measurements> measured_;
  double planned_ns_ = 0, settle_ns_ = 0, block_ns_ = 0, spent_ns_ = 0;
};

}  // namespace

Result<LoadRace> race_under_load(const std::vector<RunBlock>& contenders,
                                 const gpu::Telemetry* sensors, const LoadRules& rules) {
  if (contenders.empty()) return LoadRace{};
  return Race(contenders, sensors, rules).run();
}

}  // namespace kiln
