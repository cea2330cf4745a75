#include "tuner/measure/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

namespace kiln {
namespace {

// A probe costs 0.1 ms: asked once for this much of samples, it stays a fifth of the time at most.
constexpr double kGateIntervalNs = 0.5e6;
// Where samples follow untimed calls, so many times as long, for the same reason.
constexpr double kSettledIntervals = 3;
// Beside this much, what a first call alone pays (page faults, cold code) is under 1 %.
constexpr double kLongCallNs = 50e6;
constexpr double kUndisturbedSpeed = 0.9;

double timed(const Calls& calls, std::int64_t& cursor, std::int64_t count, MeasureClock clock) {
  const std::int64_t begin = clock();
  calls(cursor, count);
  const std::int64_t end = clock();
  cursor += count;
  return static_cast<double>(end - begin);
}

/// Untimed calls of `settle_ns` in all, where one lasts less than that.
void settle(const Calls& calls, std::int64_t& cursor, double call_ns,
            const MeasureOptions& options) {
  if (call_ns >= options.settle_ns) return;
  for (double spent = 0; spent < options.settle_ns;)
    spent += timed(calls, cursor, 1, options.clock);
}

/// Calls in a batch that lasts `sample_ns`, found by doubling: one reading of a 10 ns call says
/// little.
std::int64_t batch_size(const Calls& calls, std::int64_t& cursor, double first_ns,
                        const MeasureOptions& options) {
  const double sample_ns = options.sample_ns;
  if (first_ns >= sample_ns) return 1;
  std::int64_t batch = 1;
  double ns = timed(calls, cursor, batch, options.clock);
  while (ns < sample_ns / 4 && batch < (1 << 22)) {
    batch *= 2;
    ns = timed(calls, cursor, batch, options.clock);
  }
  if (ns >= sample_ns) return batch;
  const double factor = ns > 0 ? sample_ns / ns : 1;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(batch * factor)));
}

/// How many samples below the median's rank still lie outside a 95 % interval: the largest r with
/// P(Binomial(n, 1/2) < r) <= 2.5 %. Ranks r and n - 1 - r (from 0) then bound it.
std::size_t interval_rank(std::size_t n) {
  if (n > 500) return static_cast<std::size_t>(std::floor(0.5 * n - 0.98 * std::sqrt(double(n))));
  double term = std::pow(0.5, static_cast<double>(n));
  double below = 0;
  std::size_t r = 0;
  while (r < n / 2 && below + term <= 0.025) {
    below += term;
    term *= static_cast<double>(n - r) / static_cast<double>(r + 1);
    ++r;
  }
  return r == 0 ? 0 : r - 1;
}

/// Holds samples back until the gate has spoken about the time they were taken in.
class Admission {
 public:
  explicit Admission(const MeasureOptions& options)
      : gate_(options.gate),
        interval_ns_(std::max(kGateIntervalNs, kSettledIntervals * options.settle_ns)) {}

  void add(Samples& to, double ns_per_call, double ns) {
    pending_.emplace_back(&to, ns_per_call);
    pending_ns_ += ns;
    if (pending_ns_ >= interval_ns_) flush();
  }

  /// Whether the machine was asked for something else since the last call of this, or ever.
  bool interrupted() { return std::exchange(interrupted_, false); }

  void flush() {
    if (pending_.empty()) return;
    const bool asks = gate_ && !open_;
    interrupted_ = interrupted_ || asks;
    const bool clean = !asks || gate_();
    for (auto& [to, ns] : pending_) {
      if (clean) {
        to->ns.push_back(ns);
      } else {
        ++to->dropped;
        refused_.emplace_back(to, ns);
      }
    }
    pending_.clear();
    pending_ns_ = 0;
  }

  /// On a machine that is never quiet, disturbed samples are better than none: takes back what was
  /// refused, marks it, and asks no more.
  void give_up() {
    open_ = true;
    for (auto& [to, ns] : refused_) {
      to->ns.push_back(ns);
      to->gated = false;
    }
    refused_.clear();
  }

 private:
  const SampleGate& gate_;
  const double interval_ns_;
  bool open_ = false, interrupted_ = true;
  double pending_ns_ = 0;
  std::vector<std::pair<Samples*, double>> pending_, refused_;
};

int refusals_allowed(int samples) { return 2 * samples + 2; }

/// Leaves the `count` contenders of the lowest medians, in the order that they had. One whose
/// samples were all refused stays.
void keep_faster(std::vector<std::size_t>& left, const std::vector<Samples>& samples,
                 std::size_t count) {
  std::vector<std::size_t> order = left;
  const auto median = [&](std::size_t who) { return timing_of(samples[who].ns).median_ns; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return median(x) < median(y); });
  order.resize(count);
  std::erase_if(left, [&](std::size_t who) {
    return std::find(order.begin(), order.end(), who) == order.end();
  });
}

}  // namespace

int turn_of(int place, int round, int contenders) {
  // Williams's design: 0, 1, n-1, 2, n-2, …, each number added to all of them in turn; an odd
  // number of contenders needs those orders backwards too.
  const bool backwards = contenders % 2 == 1 && round / contenders % 2 == 1;
  if (backwards) place = contenders - 1 - place;
  const int step = place % 2 == 1 ? (place + 1) / 2 : contenders - place / 2;
  return (step + round) % contenders;
}

int rotation_sets(std::int64_t set_bytes, const DeviceCaps& device) {
  if (set_bytes <= device.l2_bytes / 4) return 1;
  const std::int64_t cache = std::max(device.l3_bytes, device.l2_bytes);
  const std::int64_t wanted = (2 * cache + set_bytes - 1) / set_bytes;
  return static_cast<int>(
      std::max<std::int64_t>(1, std::min(wanted, kRotationLimitBytes / set_bytes)));
}

SampleGate fma_gate(int threads) { return fma_gate(std::make_shared<SpeedGate>(threads)); }

SampleGate fma_gate(std::shared_ptr<SpeedGate> probe) {
  return [probe = std::move(probe)] { return probe->sample() >= kUndisturbedSpeed; };
}

Timing timing_of(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  const std::size_t rank = interval_rank(n);
  const double median = 0.5 * (samples[(n - 1) / 2] + samples[n / 2]);
  return {median, samples[rank], samples[n - 1 - rank], static_cast<int>(n)};
}

std::string disturbance(const Samples& samples) {
  constexpr double kSpread = 1.5;
  const auto kept = static_cast<int>(samples.ns.size());
  const int refused = samples.dropped, passed = samples.gated ? kept : kept - refused;
  if (!samples.gated || refused > passed)
    return fmt::format("the core was slow or shared beside {} of {} samples", refused,
                       passed + refused);
  const Timing timing = timing_of(samples.ns);
  if (timing.high_ns <= kSpread * timing.low_ns) return {};
  return fmt::format("a call took {:.4g} to {:.4g} us in {} samples", timing.low_ns / 1e3,
                     timing.high_ns / 1e3, timing.samples);
}

Sampler::Sampler(Calls calls, MeasureOptions options)
    : calls_(std::move(calls)), options_(std::move(options)) {}

std::int64_t& Sampler::cursor() {
  return options_.next_set != nullptr ? *options_.next_set : first_set_;
}

double Sampler::run(std::int64_t calls) {
  const double ns = timed(calls_, cursor(), calls, options_.clock);
  spent_ns_ += ns;
  return ns;
}

double Sampler::run_after_others() {
  if (first_ns_ < options_.lead_in_below_ns) timed(calls_, cursor(), 1, options_.clock);
  return run(samples_.batch);
}

double Sampler::calibrate() {
  first_ns_ = run(1);
  if (first_ns_ >= kLongCallNs) samples_.ns.push_back(first_ns_);
  samples_.batch = batch_size(calls_, cursor(), first_ns_, options_);
  calibrated_ = true;
  return first_ns_;
}

void Sampler::take(int total, double budget_ns, Sampler* other) {
  if (!calibrated_) calibrate();
  if (other != nullptr && !other->calibrated_) other->calibrate();
  Admission admission(options_);
  const auto count = [&] { return static_cast<int>(samples_.ns.size()); };
  const auto affordable = [&](int pending) {
    return count() + pending + samples_.dropped < options_.min_samples || spent_ns_ < budget_ns;
  };
  while (count() < total && affordable(0)) {
    const int missing = total - count();
    for (int i = 0; i < missing && affordable(i); ++i) {
      if (admission.interrupted()) settle(calls_, cursor(), first_ns_, options_);
      const double ns = other != nullptr ? run_after_others() : run(samples_.batch);
      admission.add(samples_, ns / static_cast<double>(samples_.batch), ns);
      if (other == nullptr) continue;
      const double theirs = other->run_after_others();
      admission.add(beside_, theirs / static_cast<double>(other->samples_.batch), theirs);
    }
    admission.flush();
    if (samples_.dropped > refusals_allowed(total)) admission.give_up();
  }
  if (samples_.ns.empty()) admission.give_up();
}

Samples measure(const Calls& calls, const MeasureOptions& options) {
  Sampler sampler(calls, options);
  sampler.take(options.samples, options.budget_ns);
  return sampler.samples();
}

std::vector<Samples> race(const std::vector<Calls>& contenders, const MeasureOptions& options,
                          const std::function<bool(const std::vector<Samples>&)>& stop) {
  std::vector<Samples> samples(contenders.size());
  std::int64_t from_first = 0;
  std::int64_t& cursor = options.next_set != nullptr ? *options.next_set : from_first;
  std::vector<double> first;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    first.push_back(timed(contenders[i], cursor, 1, options.clock));
    samples[i].batch = batch_size(contenders[i], cursor, first[i], options);
  }

  Admission admission(options);
  std::vector<std::size_t> left(contenders.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  const auto complete = [&] {
    return std::all_of(left.begin(), left.end(), [&](std::size_t who) {
      return static_cast<int>(samples[who].ns.size()) >= options.samples;
    });
  };
  double spent = 0;
  int round_of_these = 0;
  for (int round = 0; !complete(); ++round, ++round_of_these) {
    if (round >= options.min_samples && spent >= options.budget_ns) break;
    if (round > refusals_allowed(options.samples)) admission.give_up();
    if (round_of_these >= options.heat && options.last > 0 &&
        static_cast<int>(left.size()) > options.last) {
      admission.flush();
      keep_faster(left, samples, std::max<std::size_t>(options.last, (left.size() + 1) / 2));
      round_of_these = 0;
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::size_t who = left[static_cast<std::size_t>(
          turn_of(static_cast<int>(i), round_of_these, static_cast<int>(left.size())))];
      if (admission.interrupted()) settle(contenders[who], cursor, first[who], options);
      if (first[who] < options.lead_in_below_ns) contenders[who](cursor++, 1);
      const double ns = timed(contenders[who], cursor, samples[who].batch, options.clock);
      spent += ns;
      admission.add(samples[who], ns / static_cast<double>(samples[who].batch), ns);
    }
    if (options.settle_ns == 0 || round + 1 >= options.samples) admission.flush();
    if (!stop) continue;
    std::vector<Samples> theirs;
    for (const std::size_t who : left) theirs.push_back(samples[who]);
    if (stop(theirs)) break;
  }
  admission.flush();
  for (const Samples& s : samples)
    if (s.ns.empty()) admission.give_up();
  return samples;
}

}  // namespace kiln
