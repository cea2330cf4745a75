// Sensors of a GPU and what its clock does to samples, against a fake NVML with scripted clocks:
// alone, and beside the fake HIP device, which has the fake board's address.
#include "tuner/measure/gpu_clocks.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "bench/report.h"
#include "support/kiln_command.h"
#include "support/paths.h"

namespace kiln::gpu_clocks_test {

using gpu::Telemetry;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kBoard = "0000:0c:00.0";

std::unique_ptr<const Telemetry> board_with(const char* clocks) {
  setenv("KILN_FAKE_NVML_SM_MHZ", clocks, 1);
  return Telemetry::open(kBoard, {test::fake_nvml_path()});
}

/// Takes samples until `wanted` stand; returns how many were taken.
int take(ClockWatch& watch, int wanted) {
  int taken = 0;
  for (int standing = 0; standing < wanted; ++taken) {
    watch.before_sample();
    standing += watch.sample_stands();
  }
  return taken;
}

TEST(Telemetry, ReadsTheBoardAtAnAddress) {
  const auto board = board_with("1980,1965");
  ASSERT_NE(board, nullptr);
  EXPECT_EQ(board->sm_mhz(), 1980);
  EXPECT_EQ(board->sm_mhz(), 1965);
  const gpu::Reading reading = board->read();
  EXPECT_EQ(reading.memory_mhz, 2619);
  EXPECT_EQ(reading.watts, 512.5);
  EXPECT_EQ(reading.celsius, 61);
  EXPECT_EQ(reading.reasons, 1u) << "by the name that old drivers have";
}

TEST(Telemetry, AnAbsentLibraryOrAnUnknownBoardIsNoError) {
  EXPECT_EQ(Telemetry::open(kBoard, {"libno-such-nvml.so.1"}), nullptr);
  EXPECT_EQ(Telemetry::open(kBoard, {"libc.so.6"}), nullptr) << "it has none of the functions";
  EXPECT_EQ(Telemetry::open("0000:0d:00.0", {test::fake_nvml_path()}), nullptr);
}

TEST(Telemetry, LeavesNothingOpen) {
  const auto users = reinterpret_cast<int (*)()>(
      dlsym(dlopen(test::fake_nvml_path().c_str(), RTLD_NOW), "fake_nvml_users"));
  ASSERT_NE(users, nullptr);
  {
    const auto board = board_with("1980");
    EXPECT_EQ(users(), 1);
  }
  EXPECT_EQ(Telemetry::open("0000:0d:00.0", {test::fake_nvml_path()}), nullptr);
  EXPECT_EQ(users(), 0);
}

TEST(Slowdowns, AreThoseThatTakeSpeedFromABusyDevice) {
  EXPECT_THAT(gpu::slowdowns(0x1 | 0x2 | 0x100), ElementsAre()) << "idle, chosen, a display's";
  EXPECT_THAT(gpu::slowdowns(0x4 | 0x40), ElementsAre("power cap", "thermal slowdown"));
}

TEST(ClockWatch, WithoutSensorsEverySampleStandsAndNothingIsKnown) {
  ClockWatch watch(nullptr);
  EXPECT_EQ(take(watch, 5), 5);
  EXPECT_EQ(watch.conditions().readings, 0);
  EXPECT_EQ(text(watch.conditions()), "");
}

TEST(ClockWatch, AClockThatIsNotToldDropsNothing) {
  const auto board = board_with("0");
  ClockWatch watch(board.get());
  EXPECT_EQ(take(watch, 5), 5);
  EXPECT_EQ(watch.conditions().readings, 0);
}

TEST(ClockWatch, SmallStepsOfAPowerLimitedCardStand) {
  const auto board = board_with("1980,1815,1830,1800");
  ClockWatch watch(board.get());
  EXPECT_EQ(take(watch, 4), 4);
  const GpuConditions seen = watch.conditions();
  EXPECT_EQ(seen.readings, 8);
  EXPECT_EQ(seen.sm_low_mhz, 1800);
  EXPECT_EQ(seen.sm_median_mhz, 1830);
  EXPECT_EQ(seen.sm_high_mhz, 1980);
  EXPECT_EQ(seen.dropped, 0);
  EXPECT_TRUE(seen.settled);
}

// The first sample begins on an idle clock, the fourth meets a brake.
TEST(ClockWatch, ASampleAcrossAChangeIsRepeated) {
  const auto board = board_with("345,1980,1980,1980,1980,1980,1980,1200,1980,1980");
  ClockWatch watch(board.get());
  EXPECT_EQ(take(watch, 3), 5);
  const GpuConditions seen = watch.conditions();
  EXPECT_EQ(seen.dropped, 2);
  EXPECT_TRUE(seen.settled);
  EXPECT_EQ(seen.sm_low_mhz, 1980) << "what was dropped is not part of the record";
}

TEST(ClockWatch, AClockThatNeverSettlesEndsAndSaysSo) {
  setenv("KILN_FAKE_NVML_THROTTLE", "4", 1);
  const auto board = board_with("1980,1200");
  ClockWatch watch(board.get());
  EXPECT_EQ(take(watch, 10), 13);
  const GpuConditions seen = watch.conditions();
  unsetenv("KILN_FAKE_NVML_THROTTLE");
  EXPECT_EQ(seen.dropped, 3);
  EXPECT_FALSE(seen.settled);
  EXPECT_THAT(text(seen), AllOf(HasSubstr("SM clock 1200 to 1980 MHz"), HasSubstr("at most 512 W"),
                                HasSubstr("61 C"), HasSubstr("slowed by power cap"),
                                HasSubstr("3 samples"), HasSubstr("never settled")));
}

TEST(GpuRows, HaveConditionsWhereTheyAreKnown) {
  ContestResult row;
  row.gemm = Gemm::row_major(8, 8, 8);
  row.kiln.median_ns = 1;
  EXPECT_FALSE(to_json(row, "cuda:0").contains("conditions"));
  EXPECT_THAT(table({.rows = {row}}), Not(HasSubstr("SM clock")));
  row.conditions = {.readings = 4,
                    .sm_low_mhz = 1500,
                    .sm_median_mhz = 1905,
                    .sm_high_mhz = 1980,
                    .memory_mhz = 2619,
                    .watts = 690.5,
                    .celsius = 64,
                    .reasons = 5,
                    .dropped = 2};
  EXPECT_EQ(to_json(row, "cuda:0")["conditions"],
            OrderedJson::parse(R"({"sm_mhz": {"low": 1500, "median": 1905, "high": 1980},
              "memory_mhz": 2619, "watts": 690.5, "celsius": 64, "slowed_by": ["power cap"],
              "dropped": 2, "settled": true})"));
  EXPECT_THAT(table({.rows = {row}}), HasSubstr("SM clock 1500 to 1980 MHz, median 1905; "));
}

#ifdef KILN_HAS_FAKE_HIP

/// The command on the fake HIP device, with the fake NVML in sight where there is a script.
test::CommandResult kiln_with(const std::string& clocks, std::vector<std::string> arguments) {
  test::KilnCommand kiln;
  std::string folders = std::filesystem::path(test::fake_hip_path()).parent_path().string();
  if (!clocks.empty())
    folders += ':' + std::filesystem::path(test::fake_nvml_path()).parent_path().string();
  kiln.environment["LD_LIBRARY_PATH"] = folders;
  kiln.environment["KILN_CLANG"] = test::fake_clang_path();
  kiln.environment["KILN_REAL_CLANG"] = test::real_clang_path();
  kiln.environment["KILN_KEPT_CODE"] = test::kept_code_path();
  kiln.environment["KILN_FAKE_NVML_SM_MHZ"] = clocks;
  arguments.insert(arguments.end(),
                   {"--device", "hip:0", "--shape", "fp32 N N 16 16 16", "--json"});
  return kiln(arguments);
}

nlohmann::json raced_with(const std::string& clocks) {
  const test::CommandResult result = kiln_with(clocks, {"bench"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  return result.json().at(0);
}

TEST(GpuRace, AnAbsentLibraryLeavesTheFiguresOut) {
  EXPECT_FALSE(raced_with("").contains("conditions"));
}

TEST(GpuRace, ASteadyClockReachesTheRow) {
  const nlohmann::json row = raced_with("1980");
  EXPECT_EQ(row["conditions"]["sm_mhz"]["median"], 1980);
  EXPECT_EQ(row["conditions"]["watts"], 512.5);
  EXPECT_EQ(row["conditions"]["dropped"], 0);
}

TEST(GpuRace, SamplesAcrossAChangeAreRepeated) {
  // Every second sample; the first stands.
  const nlohmann::json row = raced_with("1980,1980,1980,600");
  ASSERT_GE(row["samples"], 5);
  EXPECT_EQ(row["conditions"]["dropped"], row["samples"].get<int>() - 1);
  EXPECT_EQ(row["conditions"]["sm_mhz"]["low"], 1980);
  EXPECT_TRUE(row["conditions"]["settled"]);
}

TEST(GpuRace, ACardThatNeverSettlesFinishes) {
  const nlohmann::json row = raced_with("1980,600");
  EXPECT_GE(row["samples"], 5);
  EXPECT_EQ(row["conditions"]["dropped"], 3);
  EXPECT_FALSE(row["conditions"]["settled"]);
}

TEST(GpuRace, TuningTellsItsConditions) {
  const test::CommandResult result =
      kiln_with("1980,1980,1980,600", {"tune", "--candidates", "4", "--budget", "1h"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.json().at(0)["conditions"].get<std::string>(),
              AllOf(HasSubstr("SM clock 1980 to 1980 MHz"), HasSubstr("clock change dropped")));
}

#endif

}  // namespace kiln::gpu_clocks_test
