// `kiln report --recorded` and `kiln tune --recorded`: from the calls of a program to its winners.
#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "cache/exchange/recorded_calls.h"
#include "runtime/cpu/cpu.h"
#include "support/kiln_command.h"

namespace kiln::cli_recorded_test {

using nlohmann::json;
using test::CommandResult;
using test::KilnCommand;
using testing::AllOf;
using testing::HasSubstr;

const std::string kBig = "fp32 N N 40 40 40", kSmall = "fp32 N N 24 24 24";

/// A command and a file of calls: mostly of kBig, and one row of another device.
struct Recorded {
  Recorded() {
    const auto row = [](const std::string& device, const std::string& shape, std::int64_t calls,
                        double ns) {
      return RecordedCalls{device, parse_gemm(shape).value(),      1, calls,
                           calls,  ns * static_cast<double>(calls)};
    };
    const std::string cpu = fingerprint(detect_cpu(1).value());
    const std::vector rows{row(cpu, kSmall, 100, 1000), row(cpu, kBig, 90, 10000),
                           row("another", kBig, 5, 10)};
    EXPECT_TRUE(add_calls(file, rows, kLongWait));
  }
  CommandResult operator()(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin() + 1, {"--recorded", file});
    return kiln(arguments);
  }

  KilnCommand kiln;
  std::string file = (kiln.folder / "calls").string();
};

TEST(CliRecorded, ReportSaysWhatTuningWouldGainAndTuneDoesIt) {
  const Recorded recorded;
  auto rows = recorded({"report", "--json"}).json();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["shape"], kBig);
  EXPECT_EQ(rows[0]["calls"], 90);
  EXPECT_EQ(rows[0]["threads"], 1);
  EXPECT_EQ(rows[0]["call_ns"], 10000);
  EXPECT_DOUBLE_EQ(rows[0]["share"].get<double>(), 0.9);
  EXPECT_EQ(rows[0]["match"], "model");
  EXPECT_EQ(rows[0]["estimate"], "model");
  EXPECT_GT(rows[0]["gain"].get<double>(), 0.1) << "40 x 40 x 40 takes less than 10 us";
  EXPECT_EQ(rows[1]["shape"], kSmall);
  EXPECT_EQ(rows[2]["summary"]["tuned_share"], 0);
  EXPECT_EQ(rows[2]["summary"]["untuned"], 2);
  EXPECT_EQ(rows[2]["summary"]["other_devices"], 1);

  const CommandResult tuned = recorded({"tune", "--budget", "1h", "--candidates", "12", "--json"});
  EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
  auto winners = tuned.json();
  ASSERT_EQ(winners.size(), 3u);
  EXPECT_EQ(winners[0]["shape"], kBig) << "most time first";
  EXPECT_EQ(winners[0]["threads"], 1) << "those of its calls";
  EXPECT_EQ(winners[1]["shape"], kSmall);

  rows = recorded({"report", "--json"}).json();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["match"], "exact");
  EXPECT_EQ(rows[0]["stored_ns"], winners[0]["median_ns"]);
  EXPECT_EQ(rows[0]["gain"], 0);
  EXPECT_EQ(rows[2]["summary"]["tuned_share"], 1);
  const auto again = recorded({"tune", "--budget", "1h", "--candidates", "12", "--json"}).json();
  EXPECT_EQ(again.back()["summary"]["already_tuned"], 2);
  EXPECT_THAT(recorded({"report"}).out,
              AllOf(HasSubstr("190 calls of 2 problems"), HasSubstr("100.0 % of the time is tuned"),
                    HasSubstr("1 rows of other devices")));
}

TEST(CliRecorded, TuneTakesUntunedShapesFirst) {
  const Recorded recorded;
  ASSERT_EQ(
      recorded
          .kiln({"tune", "--shape", kBig, "--threads", "1", "--budget", "1h", "--candidates", "12"})
          .exit_code,
      0);
  const auto rows = recorded({"tune", "--budget", "1h", "--candidates", "12", "--json"}).json();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["shape"], kSmall);
  EXPECT_EQ(rows[1]["shape"], kBig);
  EXPECT_TRUE(rows[1]["already_tuned"].get<bool>());
  const auto report = recorded({"report", "--json"}).json();
  EXPECT_DOUBLE_EQ(report.back()["summary"]["tuned_share"].get<double>(), 1);
}

TEST(CliRecorded, CommandsRecordTheirCallsAndTuningNone) {
  KilnCommand kiln;
  const std::string file = (kiln.folder / "calls").string();
  kiln.environment["KILN_RECORD"] = file;
  ASSERT_EQ(
      kiln({"tune", "--shape", kSmall, "--threads", "1", "--budget", "1h", "--candidates", "12"})
          .exit_code,
      0);
  EXPECT_TRUE(read_calls(file).value().empty());
  ASSERT_EQ(kiln({"bench", "--shape", kSmall, "--threads", "1"}).exit_code, 0);
  const auto rows = read_calls(file).value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(text(rows[0].gemm), kSmall);
  EXPECT_GT(rows[0].calls, 10);
  EXPECT_GT(rows[0].ns_per_call(), 0);
}

TEST(CliRecorded, FilesThatAreNotAreNamed) {
  const Recorded recorded;
  for (const char* command : {"report", "tune"}) {
    const auto expect = [&](const std::string& file, int code, const std::string& reason) {
      const CommandResult result = recorded.kiln({command, "--recorded", file});
      EXPECT_EQ(result.exit_code, code) << result.err;
      EXPECT_THAT(result.err, AllOf(HasSubstr(file), HasSubstr(reason)));
    };
    expect("/nowhere/calls", 2, "no such file");
    std::ofstream(recorded.kiln.folder / "notes") << "no calls at all, but notes of mine\n";
    expect((recorded.kiln.folder / "notes").string(), 3, "file is not a database");
    EXPECT_THAT(recorded({command, "--threads", "2"}).err, HasSubstr("on 2 threads"));
  }
  const CommandResult both = recorded({"tune", "--shape", kBig});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("excludes"));
  EXPECT_EQ(recorded.kiln({"report"}).exit_code, 2);
  SQLite::Database(recorded.file, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 2");
  EXPECT_THAT(recorded({"report"}).err, AllOf(HasSubstr(recorded.file), HasSubstr("version = 2")));
}

}  // namespace kiln::cli_recorded_test
