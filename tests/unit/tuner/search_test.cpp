// The search loop without hardware: a bench that answers from a cost surface over the real space.
#include "tuner/search/search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <thread>

#include "generator/families/cpu/packed/config.h"
#include "generator/space/code_class.h"
#include "tuner/search/proposer.h"

namespace kiln::search_test {

using ::testing::HasSubstr;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
/// A number in [0, 1) that depends on its arguments alone.
double chance(std::uint64_t seed, std::uint64_t x, std::uint64_t y = 0) {
  return double(mix(mix(mix(seed + 1) + x) + y) >> 11) * 0x1p-53;
}

using Cost = std::function<double(const Config&)>;

/// The model's time, each axis value making it up to `wrong` times slower, plus 2 % of roughness.
Cost surface(const SearchSpace& space, double wrong, std::uint64_t seed) {
  return [&space, wrong, seed](const Config& config) {
    double ns = std::max(1.0, predict_ns(space.problem, space.device, config));
    std::uint64_t hash = config.family();
    ns *= std::pow(wrong, chance(seed, 99, config.family()));
    std::uint64_t axis = 100 * config.family();
    for (std::size_t i = 0; i < keys_of_family(config.family()).size(); ++i) {
      const auto value = static_cast<std::uint64_t>(config.values()[i]);
      ns *= std::pow(wrong, chance(seed, ++axis, value));
      hash = mix(hash + value + axis);
    }
    return ns * (1 + 0.02 * chance(seed, hash));
  };
}

/// Answers from a cost; counts, and ends the search after `limit` candidates.
class FakeEvaluator : public Evaluator {
 public:
  FakeEvaluator(Cost cost, std::size_t limit) : cost_(std::move(cost)), limit_(limit) {}

  /// Ends the search after so many binaries instead, which is what costs time on a CPU.
  FakeEvaluator(Cost cost, const SearchSpace& space, std::size_t binaries)
      : cost_(std::move(cost)), space_(&space), limit_(binaries) {}

  std::vector<Measured> screen(const std::vector<Config>& group) override {
    std::vector<Measured> rows;
    for (const Config& config : group) {
      screened.push_back(config);
      if (space_ != nullptr) codes_.insert(code_class(space_->problem, space_->device, config));
      rows.push_back(answer(config, Round::second));
      Measured& row = rows.back();
      if (!row.ok()) continue;
      best_ = std::min(best_, row.timing().median_ns);
      if (row.timing().median_ns > 1.15 * best_) row.round = Round::screen;
      row.drift = drift(groups);
      std::get<Timing>(row.outcome).median_ns *= row.drift;
    }
    ++groups;
    return rows;
  }
  std::vector<Measured> race(const std::vector<Measured>& finalists) override {
    std::vector<Measured> rows;
    for (const Measured& f : finalists) {
      raced.push_back(f.config);
      rows.push_back(answer(f.config, Round::race));
    }
    return rows;
  }
  bool exhausted() const override {
    return (space_ != nullptr ? codes_.size() : screened.size()) >= limit_;
  }

  std::vector<Config> screened, raced;
  int groups = 0;  // screened
  /// By which every time of a group is longer.
  std::function<double(int)> drift = [](int) { return 1.0; };
  std::function<std::optional<Failure>(const Config&, Round)> fault;

 private:
  Measured answer(const Config& config, Round round) {
    Measured m;
    m.config = config;
    m.round = round;
    if (fault)
      if (auto failure = fault(config, round)) {
        m.outcome = *failure;
        return m;
      }
    const double ns = cost_(config);
    m.verified = true;
    m.outcome = Timing{ns, 0.999 * ns, 1.001 * ns, 10};
    return m;
  }

  Cost cost_;
  const SearchSpace* space_ = nullptr;
  std::set<CodeClass> codes_;
  std::size_t limit_;
  double best_ = 1e300;
};

class SearchTest : public ::testing::Test {
 protected:
  SearchTest() {
    input_.device = cpu_caps_named("avx512").value();
    input_.device.compute_units = 2;
    input_.gemm = Gemm::row_major(96, 128, 160);        // 9464 configs of two families
    input_.options.budget = std::chrono::seconds(600);  // clock: fake benches end by count
    space_ = space_for(Problem::of(input_.gemm).value(), input_.device).value();
  }

  double best_of_all(const Cost& cost) const {
    double best = 1e300;
    for (const Config& c : space_.legal) best = std::min(best, cost(c));
    return best;
  }

  SearchInput input_;
  SearchSpace space_{Problem::of(Gemm::row_major(96, 128, 160)).value(), {}, {}, {}};
};

TEST_F(SearchTest, ComparesWhatWasTimedOnASlowerMachine) {
  const Cost cost = surface(space_, 1.4, 3);
  FakeEvaluator steady(cost, 200), drifting(cost, 200);
  drifting.drift = [](int group) { return group % 3 == 1 ? 1.5 : 1.0; };
  const auto expected = search(input_, steady), found = search(input_, drifting);
  ASSERT_TRUE(expected && found);
  EXPECT_GT(drifting.groups, 3);
  EXPECT_EQ(drifting.screened, steady.screened);
  EXPECT_EQ(drifting.raced, steady.raced);
}

TEST_F(SearchTest, FindsNearlyTheBestThoughTheModelIsWrong) {
  constexpr int kSeeds = 16;
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Cost cost = surface(space_, 1.5, seed);
    FakeEvaluator evaluator(cost, space_, 64);
    const SearchResult result = search(input_, evaluator).value();
    ASSERT_TRUE(result.winner);
    const double found = result.measured[*result.winner].timing().median_ns;
    EXPECT_GE(best_of_all(cost) / found, 0.88) << "seed " << seed;
    sum += best_of_all(cost) / found;
  }
  EXPECT_GE(sum / kSeeds, 0.975);
}

// The model alone would fill it with stream_d.
TEST_F(SearchTest, TheFirstGroupHasBothValuesOfFlags) {
  input_.device.compute_units = 1;
  space_ = space_for(Problem::of(Gemm::row_major(843, 369, 8)).value(), input_.device).value();
  std::set<bool> streams, rows;
  for (const Config& config : Proposer(space_, 1).next(8, 0))
    if (const auto packed = config.if_is<HostPacked>()) {
      streams.insert(packed->stream_d);
      rows.insert(packed->rows_d);
    }
  EXPECT_EQ(streams.size(), 2u);
  EXPECT_EQ(rows.size(), 2u);
}

TEST_F(SearchTest, TriesEveryFamilyAndExploresBeyondTheModel) {
  FakeEvaluator evaluator(surface(space_, 1.5, 1), 64);
  ASSERT_TRUE(search(input_, evaluator));
  std::vector<Config> ranked = space_.legal;
  std::sort(ranked.begin(), ranked.end(), [&](const Config& x, const Config& y) {
    return predict_ns(space_.problem, space_.device, x) <
           predict_ns(space_.problem, space_.device, y);
  });
  const std::set<Config> head(ranked.begin(), ranked.begin() + 512);
  const auto off_model = std::count_if(evaluator.screened.begin(), evaluator.screened.end(),
                                       [&](const Config& c) { return head.count(c) == 0; });
  EXPECT_GE(off_model, 64 / 8);
  std::set<std::size_t> families, legal_families;
  for (const Config& c : evaluator.screened) families.insert(c.family());
  for (const Config& c : space_.legal) legal_families.insert(c.family());
  EXPECT_EQ(families, legal_families);
}

TEST_F(SearchTest, MeasuresOnlyLegalConfigsAndEachOnce) {
  input_.gemm = Gemm::row_major(37, 41, 43);
  space_ = space_for(Problem::of(input_.gemm).value(), input_.device).value();
  const std::set<Config> legal(space_.legal.begin(), space_.legal.end());
  FakeEvaluator evaluator(surface(space_, 1.5, 1), 300);
  ASSERT_TRUE(search(input_, evaluator));
  const std::set<Config> screened(evaluator.screened.begin(), evaluator.screened.end());
  EXPECT_EQ(screened.size(), evaluator.screened.size());
  EXPECT_TRUE(std::includes(legal.begin(), legal.end(), screened.begin(), screened.end()));
}

TEST_F(SearchTest, ASmallSpaceIsSearchedWhole) {
  input_.device = cpu_caps_named("portable").value();
  input_.device.compute_units = 1;
  input_.gemm = Gemm::row_major(1, 1, 1);
  space_ = space_for(Problem::of(input_.gemm).value(), input_.device).value();
  const Cost cost = surface(space_, 3, 1);
  FakeEvaluator evaluator(cost, 1 << 30);
  const SearchResult result = search(input_, evaluator).value();
  EXPECT_EQ(evaluator.screened.size(), space_.legal.size());
  EXPECT_EQ(result.end, SearchResult::End::space);
  EXPECT_EQ(result.timed, result.enumerated);
  EXPECT_EQ(result.measured[*result.winner].timing().median_ns, best_of_all(cost));
}

TEST_F(SearchTest, FailuresTeachButDoNotStopIt) {
  const Cost cost = surface(space_, 1.5, 2);
  FakeEvaluator evaluator(cost, 120);
  evaluator.fault = [](const Config& c, Round) -> std::optional<Failure> {
    const auto packed = c.if_is<HostPacked>();
    if (packed && packed->inner == Inner::columns) return Failure{Failure::Kind::crashed, "SIGILL"};
    return std::nullopt;
  };
  const SearchResult result = search(input_, evaluator).value();
  ASSERT_TRUE(result.winner);
  EXPECT_EQ(result.end, SearchResult::End::evaluator);
  EXPECT_EQ(std::size_t(result.timed + result.failed), evaluator.screened.size());
  const auto failed = std::count_if(result.measured.begin(), result.measured.end(),
                                    [](const Measured& m) { return !m.ok(); });
  EXPECT_GT(failed, 0);
  EXPECT_LT(2 * std::size_t(failed), evaluator.screened.size())
      << "half of the space fails, and it keeps trying that half";
}

TEST_F(SearchTest, AFinalistThatFailsInTheRaceLeavesItToTheNext) {
  FakeEvaluator evaluator(surface(space_, 1.5, 3), 64);
  std::optional<Config> first;
  evaluator.fault = [&](const Config& c, Round round) -> std::optional<Failure> {
    if (round != Round::race) return std::nullopt;
    if (!first) first = c;
    if (c == *first) return Failure{Failure::Kind::wrong_result, "element [0, 0]"};
    return std::nullopt;
  };
  const SearchResult result = search(input_, evaluator).value();
  ASSERT_TRUE(result.winner);
  EXPECT_NE(result.measured[*result.winner].config, *first);
  EXPECT_EQ(result.measured[*result.winner].round, Round::race);
}

TEST_F(SearchTest, WhenAllFailTheErrorSaysOfWhat) {
  FakeEvaluator evaluator(surface(space_, 1.5, 1), 20);
  evaluator.fault = [](const Config&, Round) {
    return Failure{Failure::Kind::wrong_result, "element [0, 0] is 1, expected 2"};
  };
  std::size_t sunk = 0;
  input_.sink = [&](const Evidence& e) { sunk += !e.measured.ok(); };
  const auto result = search(input_, evaluator);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::verification);
  EXPECT_THAT(result.error().message,
              HasSubstr(fmt::format("none of {} candidates", evaluator.screened.size())));
  EXPECT_THAT(result.error().message,
              HasSubstr(fmt::format("{} wrong result", evaluator.screened.size())));
  EXPECT_THAT(result.error().message, HasSubstr("expected 2"));
  EXPECT_EQ(sunk, evaluator.screened.size());
}

TEST_F(SearchTest, WrongBudgetAndImpossibleProblemsAreRefused) {
  FakeEvaluator evaluator(surface(space_, 1.5, 1), 20);
  input_.options.budget = std::chrono::seconds(0);  // clock: refused
  EXPECT_THAT(search(input_, evaluator).error().message, HasSubstr("budget = 0"));
  input_.options.budget = std::chrono::seconds(1);  // clock: another field is refused
  input_.gemm.m = -3;
  const auto result = search(input_, evaluator);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::bad_input);
  EXPECT_TRUE(evaluator.screened.empty());
}

TEST_F(SearchTest, TheSameSeedDecidesAlikeAndAnotherDoesNot) {
  const auto order = [&](std::uint64_t seed) {
    FakeEvaluator evaluator(surface(space_, 1.5, 1), 80);
    input_.options.seed = seed;
    EXPECT_TRUE(search(input_, evaluator));
    return evaluator.screened;
  };
  EXPECT_EQ(order(7), order(7));
  EXPECT_NE(order(7), order(8));
}

TEST_F(SearchTest, AReplayOfRecordedRowsDecidesAsTheSearchDid) {
  FakeEvaluator evaluator(surface(space_, 1.5, 1), 80);
  const SearchResult recorded = search(input_, evaluator).value();
  const auto replay = replay_bench(recorded.measured);
  const SearchResult replayed = search(input_, *replay).value();
  ASSERT_EQ(replayed.measured.size(), recorded.measured.size());
  for (std::size_t i = 0; i < recorded.measured.size(); ++i) {
    EXPECT_EQ(replayed.measured[i].config, recorded.measured[i].config);
    EXPECT_EQ(replayed.measured[i].outcome, recorded.measured[i].outcome);
  }
  EXPECT_EQ(replayed.winner, recorded.winner);
}

TEST_F(SearchTest, AReplayKnowsWhatItDoesNotKnow) {
  const auto replay = replay_bench({});
  EXPECT_TRUE(replay->exhausted());
  const auto rows = replay->screen({space_.legal.front()});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].failure().kind, Failure::Kind::timed_out);
  EXPECT_EQ(rows[0].failure().detail, "not recorded");
}

TEST_F(SearchTest, ResumesFromKnownRowsWithoutRunningThemAgain) {
  const Cost cost = surface(space_, 1.5, 1);
  FakeEvaluator first(cost, 40);
  input_.known = search(input_, first).value().measured;
  FakeEvaluator second(cost, 40);
  std::size_t sunk = 0;
  input_.sink = [&](const Evidence&) { ++sunk; };
  const SearchResult result = search(input_, second).value();
  EXPECT_EQ(result.known, input_.known.size());
  EXPECT_EQ(std::size_t(result.timed), first.screened.size() + second.screened.size())
      << "finalists once, what was known included";
  EXPECT_EQ(sunk, result.measured.size() - result.known);
  const std::set<Config> before(first.screened.begin(), first.screened.end());
  for (const Config& c : second.screened) EXPECT_EQ(before.count(c), 0u) << text(c);
  const auto best_before = input_.known[input_.known.size() - 1];
  EXPECT_LE(result.measured[*result.winner].timing().median_ns,
            best_before.timing().median_ns * 1.1);
}

TEST_F(SearchTest, TheIncumbentYieldsOnlyToAGainOfTwoPercent) {
  const auto winner_against = [&](double gain) {
    const Config incumbent = space_.legal[space_.legal.size() / 2];
    FakeEvaluator evaluator(
        [&, gain](const Config& c) { return c == incumbent ? 1000.0 : 1000.0 / gain; }, 40);
    input_.incumbent = incumbent;
    const SearchResult result = search(input_, evaluator).value();
    return result.measured[*result.winner].config == incumbent;
  };
  EXPECT_TRUE(winner_against(1.015));
  EXPECT_FALSE(winner_against(1.025));
}

TEST_F(SearchTest, WhoWasScreenedFasterThanTheWinnerRacedRacesToo) {
  // The first that is screened seems so much faster than it is that it races alone.
  class LuckyBench : public FakeEvaluator {
   public:
    using FakeEvaluator::FakeEvaluator;
    std::vector<Measured> screen(const std::vector<Config>& group) override {
      std::vector<Measured> rows = FakeEvaluator::screen(group);
      if (!lucky && rows.front().ok()) {
        lucky = rows.front().config;
        std::get<Timing>(rows.front().outcome).median_ns /= 1000;
      }
      return rows;
    }
    std::optional<Config> lucky;
  } evaluator(surface(space_, 1.4, 3), 60);
  const SearchResult result = search(input_, evaluator).value();
  ASSERT_TRUE(result.winner && evaluator.lucky);
  const Measured& winner = result.measured[*result.winner];
  EXPECT_EQ(evaluator.raced.front(), *evaluator.lucky);
  EXPECT_NE(winner.config, *evaluator.lucky);
  for (const Measured& row : result.measured)
    if (row.ok() && row.config != *evaluator.lucky) {
      EXPECT_LE(winner.timing().median_ns, row.timing().median_ns);
    }
}

// Samples of a disturbed core are dropped, of some contenders more than of others.
TEST_F(SearchTest, FewSamplesWinOnlyByAnIntervalBelowTheOthers) {
  // The second of a race has a fifth of the samples, and an interval of so much either way.
  const auto second_wins = [&](double median, double width) {
    class FewBench : public FakeEvaluator {
     public:
      FewBench(Cost cost, double median, double width)
          : FakeEvaluator(std::move(cost), 40), median_(median), width_(width) {}
      std::vector<Measured> race(const std::vector<Measured>& finalists) override {
        std::vector<Measured> rows = FakeEvaluator::race(finalists);
        for (std::size_t i = 0; i < rows.size(); ++i)
          rows[i].outcome = i == 1 ? Timing{median_, median_ - width_, median_ + width_, 10}
                                   : Timing{1000.0 + double(i), 990, 1010, 50};
        return rows;
      }

     private:
      double median_, width_;
    } evaluator(surface(space_, 1.01, 1), median, width);
    const SearchResult result = search(input_, evaluator).value();
    EXPECT_GE(evaluator.raced.size(), 2u);
    return result.winner && result.measured[*result.winner].config == evaluator.raced.at(1);
  };
  EXPECT_TRUE(second_wins(800, 50));
  EXPECT_FALSE(second_wins(900, 200));
  EXPECT_FALSE(second_wins(1200, 50));
}

TEST_F(SearchTest, ACancelledSearchKeepsWhatItKnows) {
  FakeEvaluator evaluator(surface(space_, 1.5, 1), 1000);
  input_.options.cancelled = [&] { return evaluator.screened.size() >= 16; };
  const SearchResult result = search(input_, evaluator).value();
  EXPECT_EQ(result.measured.size(), evaluator.screened.size());
  EXPECT_EQ(result.end, SearchResult::End::cancelled);
  EXPECT_EQ(std::size_t(result.timed), evaluator.screened.size());
  EXPECT_TRUE(evaluator.raced.empty());
  ASSERT_TRUE(result.winner);
  EXPECT_TRUE(result.measured[*result.winner].verified);
}

TEST_F(SearchTest, EndsAfterItsCandidates) {
  FakeEvaluator evaluator(surface(space_, 1.5, 1), 1 << 30);
  input_.options.candidates = 21;
  const SearchResult first = search(input_, evaluator).value();
  EXPECT_EQ(first.end, SearchResult::End::candidates);
  EXPECT_EQ(evaluator.screened.size(), 21u);
  EXPECT_EQ(first.timed + first.failed, 21);
  ASSERT_TRUE(first.winner);
  // Those of earlier calls count.
  input_.known = first.measured;
  input_.options.candidates = 30;
  const SearchResult more = search(input_, evaluator).value();
  EXPECT_EQ(more.end, SearchResult::End::candidates);
  EXPECT_EQ(more.timed + more.failed, 30);
}

TEST_F(SearchTest, EndsWithinItsBudget) {
  // A bench whose every candidate takes 10 ms of wall clock.
  class SlowBench : public FakeEvaluator {
   public:
    using FakeEvaluator::FakeEvaluator;
    std::vector<Measured> screen(const std::vector<Config>& group) override {
      // clock: longer is fewer candidates, as is asked for
      std::this_thread::sleep_for(std::chrono::milliseconds(10) * group.size());
      return FakeEvaluator::screen(group);
    }
  } evaluator(surface(space_, 1.5, 1), 1 << 30);
  // clock: met by the first group at the latest
  input_.options.budget = std::chrono::milliseconds(600);
  const SearchResult result = search(input_, evaluator).value();
  EXPECT_EQ(result.end, SearchResult::End::budget);
  EXPECT_LT(evaluator.screened.size(), 60u);
  EXPECT_GE(evaluator.screened.size(), 8u);
}

TEST_F(SearchTest, SaysHowFarItIs) {
  FakeEvaluator evaluator(surface(space_, 1.5, 1), 40);
  std::vector<Progress> seen;
  input_.options.progress = [&](const Progress& p) { seen.push_back(p); };
  const SearchResult result = search(input_, evaluator).value();
  ASSERT_GE(seen.size(), 5u);
  EXPECT_EQ(seen.front().stage, Progress::Stage::space);
  EXPECT_EQ(seen.front().total, result.enumerated);
  EXPECT_EQ(seen.back().stage, Progress::Stage::done);
  EXPECT_EQ(std::size_t(seen.back().done), evaluator.screened.size());
  EXPECT_FALSE(seen.back().best_config.empty());
  EXPECT_GT(seen.back().best_ns, 0);
}

}  // namespace kiln::search_test
