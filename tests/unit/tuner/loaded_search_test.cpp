// Searches whose finalists race under load: who races, and whose time may win. The evaluator says
// all times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tuner/search/search.h"

namespace kiln::loaded_search_test {

using testing::Contains;
using testing::Not;
using testing::SizeIs;

/// Every candidate is screened at the model's time. In a race the first of the list is the slowest;
/// `raced` may change the rows.
class Bench final : public Evaluator {
 public:
  explicit Bench(const SearchInput& input)
      : problem_(Problem::of(input.gemm).value()), device_(input.device) {}

  std::vector<Measured> screen(const std::vector<Config>& group) override {
    std::vector<Measured> rows;
    for (const Config& config : group) {
      screened.push_back(config);
      rows.push_back(row(config, predict_ns(problem_, device_, config), Round::second));
    }
    return rows;
  }
  std::vector<Measured> race(const std::vector<Measured>& finalists) override {
    ++races;
    finalists_ = finalists;
    std::vector<Measured> rows;
    for (std::size_t i = 0; i < finalists.size(); ++i)
      rows.push_back(row(finalists[i].config, 1e6 - 1e4 * double(i), Round::race));
    if (change) change(rows);
    return rows;
  }
  std::vector<Config> raced() const {
    std::vector<Config> configs;
    for (const Measured& one : finalists_) configs.push_back(one.config);
    return configs;
  }

  std::vector<Config> screened;
  int races = 0;
  std::function<void(std::vector<Measured>&)> change;

 private:
  static Measured row(const Config& config, double ns, Round round) {
    Measured measured;
    measured.config = config;
    measured.outcome = Timing{.median_ns = ns, .low_ns = ns, .high_ns = ns, .samples = 5};
    measured.round = round;
    measured.verified = true;
    return measured;
  }
  Problem problem_;
  DeviceCaps device_;
  std::vector<Measured> finalists_;
};

class LoadedSearch : public testing::Test {
 protected:
  LoadedSearch() {
    input_.gemm = Gemm::row_major(4096, 4096, 4096, DType::bf16);
    input_.device = cuda_caps_named("sm_90a").value();
    input_.options.policy = TuningPolicy::sustained;
    input_.options.candidates = 24;
    input_.options.budget = std::chrono::hours(1);  // clock: it ends by its candidates
  }
  SearchInput input_;
};

TEST_F(LoadedSearch, TheFastestThereWinsAndNobodyRacesTwice) {
  Bench bench(input_);
  const auto result = search(input_, bench);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(bench.races, 1) << "screening tells nothing of times under load";
  EXPECT_THAT(bench.raced(), SizeIs(testing::Le(6u)));
  EXPECT_EQ(result->measured[*result->winner].config, bench.raced().back());
}

TEST_F(LoadedSearch, TheWinnerOfAnotherPolicyRacesAsAnyOther) {
  const auto space = space_for(Problem::of(input_.gemm).value(), input_.device).value();
  // The slowest by the model: it would be no finalist.
  input_.guest = *std::ranges::max_element(space.legal, {}, [&](const Config& config) {
    return predict_ns(space.problem, space.device, config);
  });
  Bench bench(input_);
  const auto result = search(input_, bench);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(bench.screened, Contains(*input_.guest));
  EXPECT_EQ(bench.raced().back(), *input_.guest);
  // It is 1 % faster than the next, which an incumbent would not have to be.
  EXPECT_EQ(result->measured[*result->winner].config, *input_.guest);
}

TEST_F(LoadedSearch, AnIncumbentYieldsToAGainOfTwoPercent) {
  Bench first(input_);
  const auto before = search(input_, first);
  ASSERT_TRUE(before);
  input_.incumbent = first.raced().front();
  input_.known.assign(before->measured.begin(), before->measured.end());
  std::erase_if(input_.known, [](const Measured& row) { return row.round == Round::race; });
  const auto won_against = [&](double ns) {
    Bench bench(input_);
    bench.change = [&](std::vector<Measured>& rows) {
      for (Measured& row : rows)
        if (row.config == *input_.incumbent) {
          Timing& timing = std::get<Timing>(row.outcome);
          timing.median_ns = timing.low_ns = timing.high_ns = ns;
        }
    };
    const auto result = search(input_, bench);
    EXPECT_THAT(bench.screened, SizeIs(0)) << "all is known";
    return result->measured[*result->winner].config;
  };
  const double fastest = 1e6 - 1e4 * double(first.raced().size() - 1);
  EXPECT_EQ(won_against(1.01 * fastest), *input_.incumbent);
  EXPECT_NE(won_against(1.03 * fastest), *input_.incumbent);
}

// The rows keep the times that they were screened with, which are of another policy.
TEST_F(LoadedSearch, ARaceThatWasCutOffHasNoWinner) {
  Bench bench(input_);
  bench.change = [&](std::vector<Measured>& rows) {
    for (Measured& row : rows) row.round = Round::second;
  };
  int sunk = 0, after_race = 0;
  input_.sink = [&](const Evidence&) {
    ++sunk;
    after_race += bench.races > 0;
  };
  const auto result = search(input_, bench);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::device);
  EXPECT_GT(sunk, 0);
  EXPECT_EQ(after_race, 0) << "what is stored of the screening stays";
}

TEST_F(LoadedSearch, ACancelledOneNamesNobody) {
  Bench bench(input_);
  input_.options.cancelled = [&] { return !bench.screened.empty(); };
  const auto result = search(input_, bench);
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->winner);
  input_.options.policy = TuningPolicy::cool;
  Bench again(input_);
  input_.options.cancelled = [&] { return !again.screened.empty(); };
  EXPECT_TRUE(search(input_, again)->winner);
}

TEST_F(LoadedSearch, AShortBudgetHasFewFinalists) {
  input_.options.budget = std::chrono::seconds(4);  // clock: it ends by its candidates
  Bench bench(input_);
  ASSERT_TRUE(search(input_, bench));
  EXPECT_THAT(bench.raced(), SizeIs(testing::Le(3u)));
}

}  // namespace kiln::loaded_search_test
