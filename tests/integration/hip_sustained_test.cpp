// Tuning under load on the fake HIP device: which record there is of which policy, and which of
// them a call takes. Candidates are compiled and proved; their times are said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cache/keys.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "engine/explanation.h"
#include "engine/policy_plan.h"
#include "kiln/engine.hpp"
#include "support/fake_evaluator.h"
#include "support/fake_hip.h"
#include "support/few.h"
#include "support/hip.h"
#include "support/kiln_command.h"
#include "support/temp_dir.h"

#ifdef KILN_HAS_FAKE_HIP

namespace kiln::hip_sustained_test {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

/// Under load the order of finalists is the other way round: what was fastest needs most energy.
class TurnedUnderLoad final : public test::FakeEvaluator {
 public:
  TurnedUnderLoad(const SearchInput& input, int& screened)
      : FakeEvaluator(input),
        sustained_(input.options.policy == TuningPolicy::sustained),
        screened_(screened) {}

  std::vector<Measured> screen(const std::vector<Config>& group) override {
    std::vector<Measured> rows = FakeEvaluator::screen(group);
    screened_ += static_cast<int>(rows.size());
    return rows;
  }
  std::vector<Measured> race(const std::vector<Measured>& finalists) override {
    std::vector<Measured> rows = FakeEvaluator::race(finalists);
    for (std::size_t i = 0; sustained_ && i < rows.size(); ++i) {
      const double ns = 1e6 / double(i + 1);
      rows[i].outcome = Timing{.median_ns = ns,
                               .low_ns = ns,
                               .high_ns = ns,
                               .samples = 5,
                               .joules = 0.25,
                               .sm_mhz = 1500};
    }
    return rows;
  }

 private:
  bool sustained_;
  int& screened_;
};

const Gemm kGemm = test::problem("fp32 N N 16 16 16 align=16");

class Sustained : public test::FakeHipTest {
 protected:
  Engine open() {
    auto engine = Engine::open(
        {.device = "hip:0", .database = dir_ / "kiln.db", .on_untuned = [](const std::string&) {}});
    if (!engine) throw std::runtime_error(engine.error().message);
    engine->impl().tuning.make_evaluator = [this](const SearchInput& input,
                                                  Compiler&) -> Result<std::unique_ptr<Evaluator>> {
      return std::make_unique<TurnedUnderLoad>(input, screened_);
    };
    return std::move(*engine);
  }
  /// A search of the engine whose winner is not proved for other sizes.
  static Result<TuneReport> tune(Engine& engine, TuningPolicy policy, bool force = false) {
    test::spend_budget(engine);
    TuneOptions options = test::few_emulated(test::FakeEvaluator::kScreened);
    options.policy = policy;
    options.force = force;
    return engine.tune(kGemm, options);
  }

  TempDir dir_;
  int screened_ = 0;
};

TEST_F(Sustained, CallsTakeTheWinnerOfTheRaceUnderLoad) {
  std::string cool_config, loaded_config;
  {
    Engine engine = open();
    const auto cool = tune(engine, TuningPolicy::cool);
    ASSERT_TRUE(cool) << cool.error().message;
    EXPECT_EQ(cool->policy, "hip-cold-v1");
    EXPECT_EQ(cool->timing.joules, 0);
    EXPECT_EQ(engine.plan(kGemm)->config(), cool->config);
    const int screened = screened_;
    const auto loaded = tune(engine, TuningPolicy::sustained);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(screened_, screened) << "what was screened cool is not screened again";
    EXPECT_EQ(loaded->policy, "hip-sustained-v1");
    EXPECT_EQ(loaded->timing.joules, 0.25);
    EXPECT_TRUE(loaded->stored);
    EXPECT_NE(loaded->config, cool->config);
    EXPECT_EQ(engine.plan(kGemm)->config(), loaded->config) << "it replaced the plan";
    cool_config = cool->config, loaded_config = loaded->config;
    // Another cool search changes nothing of that.
    ASSERT_TRUE(tune(engine, TuningPolicy::cool, true));
    EXPECT_EQ(engine.plan(kGemm)->config(), loaded_config);
    EXPECT_TRUE(tune(engine, TuningPolicy::sustained)->already_tuned);
    // For a race beside it the other winner can be asked for.
    const auto other = plan_of_policy(engine, kGemm, 0, TuningPolicy::cool);
    ASSERT_TRUE(other) << other.error().message;
    ASSERT_TRUE(*other);
    EXPECT_EQ((*other)->config(), cool_config);
    EXPECT_FALSE(*plan_of_policy(engine, test::problem("fp32 N N 9 9 9"), 0, TuningPolicy::cool));
  }
  Engine engine = open();
  EXPECT_EQ(engine.plan(kGemm)->config(), loaded_config);
  const auto why = explanation(engine, kGemm, 0);
  ASSERT_TRUE(why) << why.error().message;
  EXPECT_EQ(why->key.policy, "hip-sustained-v1");
  EXPECT_THAT(text(*why), AllOf(HasSubstr("under load: 250 mJ a call, SM clock 1500 MHz"),
                                HasSubstr("policy hip-sustained-v1")));
  // Two records, and rows of the second are of its race alone.
  std::map<std::string, std::string> winners;
  std::vector<StoredMeasurement> raced;
  ASSERT_TRUE(engine.impl().store->measurements().each({}, [&](const StoredMeasurement& row) {
    if (row.winner) winners[row.key.policy] = text(row.measured.config);
    if (row.key.policy == "hip-sustained-v1") raced.push_back(row);
  }));
  EXPECT_EQ(winners, (std::map<std::string, std::string>{{"hip-cold-v1", cool_config},
                                                         {"hip-sustained-v1", loaded_config}}));
  EXPECT_FALSE(raced.empty());
  for (const StoredMeasurement& row : raced) EXPECT_EQ(row.measured.round, Round::race);
}

TEST_F(Sustained, WithoutACoolRecordItScreensAndKernelsServeOtherSizes) {
  Engine engine = open();
  TuneOptions options = test::few(test::FakeEvaluator::kScreened);
  options.policy = TuningPolicy::sustained;
  const auto report = engine.tune(kGemm, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(screened_, 0);
  const auto plan = engine.plan(test::problem("fp32 N N 12 16 32 align=16"));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->match(), Match::nearest);
  EXPECT_EQ(plan->config(), report->config);
}

TEST_F(Sustained, IsChosenForWhatIsBoundByPower) {
  Engine engine = open();
  const auto chosen = [&](const char* line) {
    return engine.impl().policy_of(test::problem(line), TuningPolicy::automatic).value();
  };
  EXPECT_EQ(chosen("bf16 N T 8192 8192 8192"), TuningPolicy::sustained);
  EXPECT_EQ(chosen("bf16 N T 1 8192 8192"), TuningPolicy::cool) << "bound by memory";
  EXPECT_EQ(chosen("bf16 N T 512 512 512"), TuningPolicy::cool) << "over too soon";
}

TEST_F(Sustained, RangesRefuseItByName) {
  Engine engine = open();
  const GemmRange range = parse_gemm_range("fp32 N N 1..8 16 16").value();
  const auto report = engine.tune(range, {.policy = TuningPolicy::sustained});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::bad_input);
  EXPECT_THAT(report.error().message, HasSubstr("policy = sustained: must be cool or auto"));
}

TEST_F(Sustained, ACancelledSearchLeavesNoRecordUnderLoad) {
  Engine engine = open();
  TuneOptions options = test::few(test::FakeEvaluator::kScreened);
  options.policy = TuningPolicy::sustained;
  options.cancelled = [this] { return screened_ > 0; };
  const auto report = engine.tune(kGemm, options);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("cancelled before any kernel raced under load"));
}

/// The command on a fake board whose launches take 1 ms of a clock of its own.
test::CommandResult kiln_on_board(const TempDir& dir, std::vector<std::string> arguments) {
  test::KilnCommand kiln;
  const std::filesystem::path runtime = test::fake_hip_path(), board = test::fake_nvml_path();
  kiln.environment["LD_LIBRARY_PATH"] =
      runtime.parent_path().string() + ':' + board.parent_path().string();
  kiln.environment["KILN_CLANG"] = test::fake_clang_path();
  kiln.environment["KILN_REAL_CLANG"] = test::real_clang_path();
  kiln.environment["KILN_KEPT_CODE"] = test::kept_code_path();
  kiln.environment["KILN_FAKE_HIP_LAUNCH_NS"] = "1e6";
  kiln.environment["KILN_FAKE_NVML_SM_MHZ"] = "1500";
  kiln.environment["KILN_FAKE_NVML_MILLIJOULES"] = "4500";
  arguments.insert(arguments.end(), {"--db", (dir / "kiln.db").string(), "--json"});
  return kiln(arguments);
}

/// A block is one graph of as many launches as it may have, which is longer than it should be.
constexpr double kJoules = 4.5 / 1024;

TEST(SustainedCommand, TunesAndTellsJoules) {
  const TempDir dir;
  const std::vector<std::string> tune{
      "tune",        "--device",     "hip:0", "--shape",  "fp32 N N 16 16 16",
      "--sustained", "--candidates", "1",     "--budget", "1h"};
  const auto tuned = kiln_on_board(dir, tune);
  ASSERT_EQ(tuned.exit_code, 0) << tuned.out << tuned.err;
  const nlohmann::json row = tuned.json().at(0);
  EXPECT_EQ(row["policy"], "hip-sustained-v1");
  EXPECT_EQ(row["sm_mhz"], 1500);
  EXPECT_NEAR(row["joules"].get<double>(), kJoules, 1e-9);
  EXPECT_NEAR(row["median_ns"].get<double>(), 1e6, 1);
  EXPECT_THAT(row["conditions"].get<std::string>(), HasSubstr("under load, SM clock 1500"));
  const auto why =
      kiln_on_board(dir, {"explain", "--device", "hip:0", "--shape", "fp32 N N 16 16 16"});
  ASSERT_EQ(why.exit_code, 0) << why.out << why.err;
  EXPECT_EQ(why.json().at(0)["policy"], "hip-sustained-v1");
  EXPECT_EQ(why.json().at(0)["record"]["measured"]["joules"], row["joules"]);
  const auto list = kiln_on_board(dir, {"db", "list"});
  EXPECT_EQ(list.json().at(0)["joules"], row["joules"]) << list.out;
}

TEST(SustainedCommand, RacesAndTellsJoules) {
  const TempDir dir;
  const std::vector<std::string> bench{
      "bench",       "--device",  "hip:0", "--shape", "fp32 N N 16 16 16",
      "--sustained", "--samples", "3"};
  const auto raced = kiln_on_board(dir, bench);
  ASSERT_EQ(raced.exit_code, 0) << raced.out << raced.err;
  const nlohmann::json row = raced.json().at(0);
  EXPECT_EQ(row["policy"], "hip-sustained-v1");
  EXPECT_EQ(row["samples"], 3);
  EXPECT_NEAR(row["kiln_joules"].get<double>(), kJoules, 1e-9);
  EXPECT_EQ(row["conditions"]["sm_mhz"]["median"], 1500);
}

TEST(SustainedCommand, IsRefusedOnACpuByName) {
  const TempDir dir;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"tune", "--sustained"}, {"bench", "--sustained"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--shape", "fp32 N N 16 16 16"});
    const auto refused = kiln_on_board(dir, arguments);
    EXPECT_EQ(refused.exit_code, 2) << refused.out;
    EXPECT_THAT(refused.out, HasSubstr("sustained: must be on a GPU (cuda:N or hip:N)"));
  }
}

}  // namespace kiln::hip_sustained_test

#endif
