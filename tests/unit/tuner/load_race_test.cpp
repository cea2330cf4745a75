// Races under load on an invented board: its clock follows the power that a kernel needs, with a
// delay, and its counter of joules is the fake NVML's. No test waits.
#include "tuner/measure/load_race.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "support/paths.h"
#include "tuner/search/finalists.h"
#include "tuner/search/stopping.h"

namespace kiln::load_race_test {

using gpu::Telemetry;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// 700 W at most; a kernel that would need more has a clock that is lower by as much.
class Board {
 public:
  static constexpr double kMostMhz = 1980, kMostWatts = 700, kDelayNs = 50e6;

  struct Kernel {
    double cycles;  // of a call
    double watts;   // at the highest clock
  };

  /// Runs calls back to back, the clock following.
  LoadBlock run(const Kernel& kernel, double ns) {
    const double settled = kMostMhz * std::min(1.0, kMostWatts / kernel.watts);
    LoadBlock block;
    while (block.ns < ns) {
      const double call_ns = kernel.cycles / mhz_ * 1e3;
      mhz_ += (settled - mhz_) * (1 - std::exp(-call_ns / kDelayNs));
      joules_ += kernel.watts * (mhz_ / kMostMhz) * call_ns * 1e-9;
      block.ns += call_ns;
      ++block.calls;
    }
    say();
    return block;
  }
  /// One call of a device that rested.
  double cool_ns(const Kernel& kernel) const { return kernel.cycles / kMostMhz * 1e3; }

  RunBlock contender(const Kernel& kernel, std::string name) {
    return [this, kernel, name](double ns, const auto& meanwhile) -> Result<LoadBlock> {
      turns += name;
      lengths.push_back(ns);
      const LoadBlock block = run(kernel, ns);
      meanwhile();
      return block;
    };
  }

  std::function<void()> say = [] {};
  double mhz() const { return mhz_; }
  double joules() const { return joules_; }
  std::string turns;            // by name, a block each
  std::vector<double> lengths;  // that were asked for

 private:
  double mhz_ = kMostMhz, joules_ = 1000;
};

// X is faster while the device is cool; it needs so much power that Y is faster under load.
constexpr Board::Kernel kX{.cycles = 1.00e6, .watts = 900}, kY{.cycles = 1.08e6, .watts = 720};

struct Sensed {
  Sensed() {
    void* library = dlopen(test::fake_nvml_path().c_str(), RTLD_NOW);
    say = reinterpret_cast<void (*)(unsigned, unsigned long long)>(dlsym(library, "fake_nvml_say"));
    sensors = Telemetry::open("0000:0c:00.0", {test::fake_nvml_path()});
    board.say = [this] {
      say(static_cast<unsigned>(std::lround(board.mhz())),
          static_cast<unsigned long long>(board.joules() * 1e3));
    };
    board.say();
  }
  Result<LoadRace> race(const LoadRules& rules = {}) {
    return race_under_load({board.contender(kX, "x"), board.contender(kY, "y")}, sensors.get(),
                           rules);
  }
  void (*say)(unsigned, unsigned long long);
  std::unique_ptr<const Telemetry> sensors;
  Board board;
};

TEST(LoadRace, TheFasterOnACoolDeviceMayBeTheSlowerUnderLoad) {
  Sensed on;
  ASSERT_LT(on.board.cool_ns(kX), on.board.cool_ns(kY));
  const auto race = on.race();
  ASSERT_TRUE(race) << race.error().message;
  const Timing &x = race->timings[0], &y = race->timings[1];
  EXPECT_GT(x.median_ns, 1.05 * y.median_ns);
  EXPECT_TRUE(decided(race->timings, 3));
  EXPECT_NEAR(x.sm_mhz, 1980 * 700 / 900., 10);
  EXPECT_NEAR(y.sm_mhz, 1980 * 700 / 720., 10);
  // 700 W for as long as a call takes.
  EXPECT_NEAR(x.joules, 700 * x.median_ns * 1e-9, 0.01 * x.joules);
  EXPECT_NEAR(y.joules, 700 * y.median_ns * 1e-9, 0.01 * y.joules);
}

TEST(LoadRace, TheDeviceIsLoadedUntilItsClockSettlesAndTurnsRotate) {
  Sensed on;
  const auto race = on.race({.min_rounds = 3, .stop = [](const auto&) { return true; }});
  ASSERT_TRUE(race);
  // Loading, then three rounds, each block of which has a part that is not timed.
  const std::string& turns = on.board.turns;
  const std::size_t blocks = turns.size() - 12;
  EXPECT_EQ(turns.substr(blocks),
            "xxyy"
            "yyxx"
            "xxyy");
  EXPECT_EQ(turns.substr(0, blocks), std::string(blocks, 'x'));
  EXPECT_GE(blocks, 3u) << "three readings";
  EXPECT_LT(blocks, 10u) << "the clock settles sooner";
  EXPECT_NEAR(on.board.lengths[blocks], 150e6, 1);
  EXPECT_NEAR(on.board.lengths[blocks + 1], 450e6, 1);
  EXPECT_TRUE(race->conditions.settled);
  EXPECT_THAT(text(race->conditions), HasSubstr("under load, SM clock "));
  EXPECT_EQ(race->timings[0].samples, 3);
}

TEST(LoadRace, AClockThatNeverSettlesEndsAndSaysSo) {
  setenv("KILN_FAKE_NVML_SM_MHZ", "1980,1700", 1);
  const auto sensors = Telemetry::open("0000:0c:00.0", {test::fake_nvml_path()});
  Board board;
  const auto race = race_under_load({board.contender(kX, "x")}, sensors.get(), {.rounds = 3});
  unsetenv("KILN_FAKE_NVML_SM_MHZ");
  ASSERT_TRUE(race);
  EXPECT_EQ(board.turns.size(), 20u + 3 * 2);
  EXPECT_FALSE(race->conditions.settled);
  EXPECT_THAT(text(race->conditions), HasSubstr("had not settled when the race began"));
}

TEST(LoadRace, WithoutSensorsItIsLoadedForAFixedTimeAndNoEnergyIsKnown) {
  Board board;
  const auto race =
      race_under_load({board.contender(kX, "x"), board.contender(kY, "y")}, nullptr, {.rounds = 3});
  ASSERT_TRUE(race);
  EXPECT_EQ(board.turns.size(), 10u + 3 * 4);
  EXPECT_GT(race->timings[0].median_ns, race->timings[1].median_ns);
  for (const Timing& timing : race->timings) {
    EXPECT_EQ(timing.joules, 0);
    EXPECT_EQ(timing.sm_mhz, 0);
  }
  EXPECT_EQ(text(race->conditions), "");
}

TEST(LoadRace, ABoardThatTellsNoEnergyHasItsClockAlone) {
  const auto sensors = Telemetry::open("0000:0c:00.0", {test::fake_nvml_path()});
  ASSERT_NE(sensors, nullptr);
  void* library = dlopen(test::fake_nvml_path().c_str(), RTLD_NOW);
  reinterpret_cast<void (*)()>(dlsym(library, "fake_nvml_forget"))();
  EXPECT_FALSE(sensors->joules());
  Board board;
  const auto race = race_under_load({board.contender(kX, "x")}, sensors.get(), {.rounds = 3});
  ASSERT_TRUE(race);
  EXPECT_EQ(race->timings[0].joules, 0);
  EXPECT_EQ(race->timings[0].sm_mhz, 1980);
}

TEST(LoadRace, AShortBudgetHasShortBlocks) {
  Sensed on;
  LoadRules rules{.budget_ns = 1e9};
  const auto race = on.race(rules);
  ASSERT_TRUE(race);
  double spent = 0;
  for (const double ns : on.board.lengths) spent += ns;
  EXPECT_LT(spent, 1.2e9);
  EXPECT_THAT(on.board.lengths, Each(testing::Lt(120e6)));
  EXPECT_GE(race->timings[0].samples, 3);
}

TEST(LoadRace, RoundsEndWithTheirNumberOrWhenTheRaceIsStopped) {
  Sensed on;
  EXPECT_EQ(on.race({.rounds = 4})->timings[1].samples, 4);
  int asked = 0;
  const LoadRules stopped{.rounds = 9, .min_rounds = 2, .stop = [&](const auto& timings) {
                            ++asked;
                            return timings[0].samples == 5;
                          }};
  EXPECT_EQ(on.race(stopped)->timings[0].samples, 5);
  EXPECT_EQ(asked, 4) << "from the second round on";
}

TEST(LoadRace, AContenderThatFailsEndsIt) {
  std::vector<std::size_t> turns;
  const RunBlock broken = [](double, const auto&) -> Result<LoadBlock> {
    return fail(ErrorCode::device, "cuGraphLaunch: lost");
  };
  Board board;
  const auto race = race_under_load({board.contender(kX, "x"), broken}, nullptr,
                                    {.on_turn = [&](std::size_t who) { turns.push_back(who); }});
  ASSERT_FALSE(race);
  EXPECT_THAT(race.error().message, HasSubstr("lost"));
  EXPECT_THAT(turns, ElementsAre(0, 0, 1)) << "loading, and the first round";
}

TEST(LoadedFinalists, AreAsManyAsHaveBlocksThatAreLongEnough) {
  EXPECT_EQ(loaded_finalists(1), 3u);
  EXPECT_EQ(loaded_finalists(5), 4u);
  EXPECT_EQ(loaded_finalists(3600), 6u);
}

}  // namespace kiln::load_race_test
