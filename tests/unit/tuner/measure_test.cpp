// Statistics, rotation, gating and stopping, on calls whose cost the test decides.
#include "tuner/measure/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tuner/measure/operand_sets.h"
#include "tuner/search/stopping.h"

namespace kiln::measure_test {

/// The tests' own time: calls move it by what they cost, and nothing else does.
std::int64_t now = 0;
std::int64_t own_clock() { return now; }
void spend(double ns) { now += static_cast<std::int64_t>(ns); }

TEST(TimingOf, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(timing_of({5, 1, 3}).median_ns, 3);
  EXPECT_EQ(timing_of({4, 1, 3, 2}).median_ns, 2.5);
  EXPECT_EQ(timing_of({}), Timing{});
}

// The ranks are those of the tables for the sign test: 10 samples 2nd and 9th, 20 samples 6th and
// 15th, 5 samples the range (93.75 % only).
TEST(TimingOf, IntervalIsTheOneOfTheSignTest) {
  const auto interval = [](int n) {
    std::vector<double> samples;
    for (int i = n; i >= 1; --i) samples.push_back(i);
    const Timing t = timing_of(samples);
    EXPECT_EQ(t.samples, n);
    return std::pair(t.low_ns, t.high_ns);
  };
  EXPECT_EQ(interval(1), std::pair(1.0, 1.0));
  EXPECT_EQ(interval(5), std::pair(1.0, 5.0));
  EXPECT_EQ(interval(10), std::pair(2.0, 9.0));
  EXPECT_EQ(interval(20), std::pair(6.0, 15.0));
  const auto [low, high] = interval(1000);
  EXPECT_NEAR(low, 470, 1);
  EXPECT_NEAR(high, 531, 1);
}

TEST(Disturbance, IsWhatTheGateRefusedOrAWideInterval) {
  Samples samples{.ns = std::vector<double>(12, 100e3)};
  EXPECT_EQ(disturbance(samples), "");
  samples.dropped = 12;
  EXPECT_EQ(disturbance(samples), "") << "as many stand";
  samples.dropped = 13;
  EXPECT_EQ(disturbance(samples), "the core was slow or shared beside 13 of 25 samples");
  samples.gated = false;  // those that were refused are among them
  samples.ns.assign(20, 100e3);
  EXPECT_EQ(disturbance(samples), "the core was slow or shared beside 13 of 20 samples");
  Samples wide{
      .ns = {3838e3, 3900e3, 3950e3, 3990e3, 3993e3, 3993e3, 4100e3, 5000e3, 8003e3, 8100e3}};
  EXPECT_EQ(disturbance(wide), "a call took 3900 to 8003 us in 10 samples");
  wide.ns[8] = 5500e3;
  EXPECT_EQ(disturbance(wide), "");
  EXPECT_EQ(disturbance({}), "");
}

TEST(RotationSets, SmallIsHotLargeExceedsTheCacheTwiceWithinTheLimit) {
  DeviceCaps device;
  device.l2_bytes = 1 << 20;
  device.l3_bytes = 32 << 20;
  EXPECT_EQ(rotation_sets(256 << 10, device), 1);
  EXPECT_EQ(rotation_sets(1 << 20, device), 64);
  EXPECT_EQ(rotation_sets(24 << 20, device), 3);
  EXPECT_EQ(rotation_sets(std::int64_t{1} << 30, device), 1);
  device.l3_bytes = 480 << 20;
  EXPECT_EQ(rotation_sets(1 << 20, device), 256) << "256 MB at most";
}

TEST(CallsOver, WalksThroughTheSetsInOrder) {
  std::vector<int> seen;
  const Calls calls = calls_over(3, [&](int set) { seen.push_back(set); });
  calls(0, 2);
  calls(2, 5);
  EXPECT_EQ(seen, (std::vector{0, 1, 2, 0, 1, 2, 0}));
}

TEST(Measure, GoesOnWhereTheMeasurementBeforeEnded) {
  constexpr int kSets = 1 << 20;
  std::vector<int> seen;
  const Calls calls = calls_over(kSets, [&](int set) {
    seen.push_back(set);
    spend(30e3);
  });
  std::int64_t next = 5;
  for (int i = 0; i < 2; ++i) measure(calls, {.samples = 3, .next_set = &next, .clock = own_clock});
  race({calls, calls}, {.samples = 3, .next_set = &next, .clock = own_clock});
  EXPECT_EQ(next, 5 + std::int64_t(seen.size()));
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], 5 + int(i));
}

TEST(Measure, BatchesShortCallsAndNotLongOnes) {
  std::int64_t made = 0;
  const Samples brief = measure(calls_over(1,
                                           [&](int) {
                                             ++made;
                                             spend(5);
                                           }),
                                {.samples = 5, .clock = own_clock});
  EXPECT_EQ(brief.ns.size(), 5u);
  EXPECT_GT(brief.batch, 1000);
  EXPECT_GE(made, 5 * brief.batch);
  const Samples slow =
      measure(calls_over(1, [](int) { spend(50e3); }), {.samples = 3, .clock = own_clock});
  EXPECT_EQ(slow.batch, 1);
  EXPECT_GE(timing_of(slow.ns).low_ns, 50e3);
}

TEST(Measure, WakesWhoIsTimedBesideAnother) {
  std::vector<int> seen;
  const auto caller = [&](int who) {
    return calls_over(1, [&seen, who](int) {
      seen.push_back(who);
      spend(30e3);
    });
  };
  const MeasureOptions options{.lead_in_below_ns = kLeadInBelowNs, .clock = own_clock};
  Sampler one(caller(0), options), other(caller(1), options);
  one.calibrate();
  other.calibrate();
  seen.clear();
  one.take(5, 1e18, &other);
  ASSERT_GE(seen.size(), 20u);
  for (std::size_t i = 0; i < seen.size();) {
    const std::size_t begin = i;
    while (i < seen.size() && seen[i] == seen[begin]) ++i;
    EXPECT_GE(i - begin, 2u) << "an untimed call and a sample";
  }
}

TEST(Measure, SpendsNoMoreThanItsBudgetButItsLeastSamples) {
  const Calls calls = calls_over(1, [](int) { spend(2e6); });
  EXPECT_EQ(measure(calls, {.samples = 50, .min_samples = 2, .budget_ns = 1, .clock = own_clock})
                .ns.size(),
            2u);
  EXPECT_LT(measure(calls, {.samples = 50, .budget_ns = 10e6, .clock = own_clock}).ns.size(), 6u);
}

TEST(Measure, DropsWhatTheGateRefuses) {
  int asked = 0;
  bool disturbed = false;
  const Calls calls = calls_over(1, [&](int) { spend(disturbed ? 1.8e6 : 0.6e6); });
  // Every third sample is disturbed, and the gate knows.
  const SampleGate gate = [&] {
    const bool clean = !disturbed;
    disturbed = ++asked % 3 == 2;
    return clean;
  };
  const Samples samples = measure(calls, {.samples = 8, .gate = gate, .clock = own_clock});
  EXPECT_EQ(samples.ns.size(), 8u);
  EXPECT_GT(samples.dropped, 0);
  EXPECT_TRUE(samples.gated);
}

TEST(Measure, KeepsDisturbedSamplesRatherThanNone) {
  const Samples samples = measure(calls_over(1, [](int) { spend(30e3); }),
                                  {.samples = 4, .gate = [] { return false; }, .clock = own_clock});
  EXPECT_GE(samples.ns.size(), 4u);
  EXPECT_FALSE(samples.gated);
}

TEST(Measure, UntimedCallsFollowAPauseAndTheGate) {
  int calls = 0, asked = 0;
  MeasureOptions options{.samples = 8, .settle_ns = 0.5e6, .clock = own_clock};
  options.gate = [&] {
    ++asked;
    return true;
  };
  const Calls some = calls_over(1, [&](int) {
    ++calls;
    spend(100e3);
  });
  EXPECT_EQ(measure(some, options).ns.size(), 8u);
  EXPECT_GE(asked, 1);
  EXPECT_GE(calls, 1 + 8 + 1) << "a call that is interrupted may last for all of them";
  calls = 0;
  const auto samples = race({some, some}, options);
  EXPECT_EQ(samples[0].ns.size(), 8u);
  EXPECT_EQ(samples[1].ns.size(), 8u);
  EXPECT_GE(calls, 2 + 16 + 1);
}

TEST(Measure, LongCallsNeedNone) {
  int calls = 0;
  const Calls some = calls_over(1, [&](int) {
    ++calls;
    spend(400e3);
  });
  measure(some, {.samples = 3, .settle_ns = 0.3e6, .clock = own_clock});
  EXPECT_EQ(calls, 1 + 3);
  calls = 0;
  race({some, some}, {.samples = 3, .settle_ns = 0.3e6, .clock = own_clock});
  EXPECT_EQ(calls, 2 + 6);
}

TEST(Race, InterleavesAndSharesTheWalkThroughTheSets) {
  constexpr int kSets = 1000;
  std::vector<std::pair<int, int>> order;  // who, set
  const auto contender = [&](int who, double ns) {
    return calls_over(kSets, [&order, who, ns](int set) {
      order.emplace_back(who, set);
      spend(ns);
    });
  };
  const auto samples =
      race({contender(0, 30e3), contender(1, 60e3)}, {.samples = 6, .clock = own_clock});
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].ns.size(), 6u);
  EXPECT_LT(timing_of(samples[0].ns).median_ns, timing_of(samples[1].ns).median_ns);
  for (std::size_t i = 1; i < order.size(); ++i)
    EXPECT_EQ(order[i].second, (order[i - 1].second + 1) % kSets) << "call " << i;
  int changes = 0;
  for (std::size_t i = 1; i < order.size(); ++i) changes += order[i].first != order[i - 1].first;
  EXPECT_GE(changes, 6);
}

TEST(Race, FollowsEveryOtherContenderEquallyOften) {
  for (const int contenders : {1, 2, 3, 4, 5, 8, 9}) {
    const int rounds = contenders % 2 == 0 ? contenders : 2 * contenders;
    std::map<std::pair<int, int>, int> followed;
    for (int round = 0; round < rounds; ++round) {
      std::set<int> seen;
      for (int place = 0; place < contenders; ++place) {
        const int who = turn_of(place, round, contenders);
        EXPECT_TRUE(seen.insert(who).second) << who << " twice in round " << round;
        if (place > 0) ++followed[{turn_of(place - 1, round, contenders), who}];
      }
      EXPECT_EQ(static_cast<int>(seen.size()), contenders);
    }
    EXPECT_EQ(static_cast<int>(followed.size()), contenders * (contenders - 1));
    for (const auto& [pair, times] : followed)
      EXPECT_EQ(times, rounds / contenders) << pair.first << " before " << pair.second;
  }
}

TEST(Race, ItsSlowerHalvesLeave) {
  std::vector<Calls> contenders;
  for (const double us : {600, 100, 900, 300, 1200, 2000})
    contenders.push_back(calls_over(1, [us](int) { spend(us * 1e3); }));
  const auto samples = race(contenders, {.samples = 8, .last = 2, .heat = 3, .clock = own_clock});
  std::vector<std::size_t> taken;
  for (const Samples& s : samples) taken.push_back(s.ns.size());
  // Six contenders for three rounds, three for three more, two to the end.
  EXPECT_EQ(taken, (std::vector<std::size_t>{6, 8, 3, 8, 3, 3}));
}

TEST(Race, StopsWhenToldTo) {
  int rounds = 0;
  const auto samples =
      race({calls_over(1, [](int) { spend(25e3); })}, {.samples = 100, .clock = own_clock},
           [&](const std::vector<Samples>&) { return ++rounds == 4; });
  EXPECT_EQ(samples[0].ns.size(), 4u);
}

TEST(Stopping, ScreeningDropsBeyondItsRatioOnly) {
  const ScreeningRule rule;
  EXPECT_FALSE(screened_out(1e9, 0, rule.first)) << "nothing is known yet";
  EXPECT_FALSE(screened_out(149, 100, rule.first));
  EXPECT_TRUE(screened_out(151, 100, rule.first));
  EXPECT_FALSE(screened_out(114, 100, rule.second));
  EXPECT_TRUE(screened_out(116, 100, rule.second));
}

TEST(Stopping, IncumbentYieldsToASupportedGainOnly) {
  const Timing incumbent{100, 99, 101, 30};
  EXPECT_FALSE(yields(incumbent, {98.5, 98, 98.9, 30})) << "1.5 %";
  EXPECT_FALSE(yields(incumbent, {95, 90, 99.5, 30})) << "the intervals overlap";
  EXPECT_TRUE(yields(incumbent, {97, 96, 98, 30}));
}

TEST(Stopping, ARaceIsDecidedWhenTheFastestStandsApart) {
  const Timing fast{100, 98, 102, 12}, close{103, 101, 105, 12}, slow{110, 108, 112, 12};
  EXPECT_TRUE(decided(std::vector{fast, slow}, 10));
  EXPECT_FALSE(decided(std::vector{fast, close, slow}, 10));
  EXPECT_FALSE(decided(std::vector{fast, slow}, 20)) << "too few samples";
}

TEST(OperandSets, AreAlikeApartAndAligned) {
  DeviceCaps device;
  device.l2_bytes = 64 << 10;
  device.l3_bytes = 256 << 10;
  const Gemm gemm = Gemm::row_major(40, 50, 60).with_bias(Bias::per_column).with_residual();
  const OperandSets sets = OperandSets::make(gemm, device, 5).value();
  EXPECT_EQ(sets.count(), rotation_sets(sets.set_bytes(), device));
  ASSERT_GT(sets.count(), 2);
  std::set<const void*> addresses;
  for (int i = 0; i < sets.count(); ++i) {
    const Operands& o = sets[i];
    for (const void* p : {o.a, o.b, static_cast<const void*>(o.d), o.bias, o.residual}) {
      EXPECT_TRUE(addresses.insert(p).second);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
    }
    const auto* a = static_cast<const float*>(o.a);
    EXPECT_TRUE(std::equal(a, a + 40 * 60, static_cast<const float*>(sets[0].a)));
    const auto* r = static_cast<const float*>(o.residual);
    EXPECT_TRUE(std::equal(r, r + 40 * 50, static_cast<const float*>(sets[0].residual)));
  }
}

}  // namespace kiln::measure_test
