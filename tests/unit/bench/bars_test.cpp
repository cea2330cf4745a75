// Bars, sparklines and charts: as text, and where the command draws them.
#include "bench/bars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/report.h"
#include "bench/svg.h"
#include "cache/exchange/recorded_calls.h"
#include "runtime/cpu/cpu.h"
#include "support/kiln_command.h"

namespace kiln::bars_test {

using test::KilnCommand;
using testing::HasSubstr;
using testing::Not;

TEST(Bars, FillToTheEighthOfACell) {
  EXPECT_EQ(share_bar(0, 4), "    ");
  EXPECT_EQ(share_bar(0.5, 4), "██  ");
  EXPECT_EQ(share_bar(0.53125, 4), "██▏ ");
  EXPECT_EQ(share_bar(1, 4), "████");
  EXPECT_EQ(share_bar(7, 4), "████");
  for (int eighths = 0; eighths <= 32; ++eighths)
    EXPECT_EQ(columns_of(share_bar(eighths / 32.0, 4)), 4u) << eighths;
}

TEST(Bars, RatiosGoEitherWayFromOne) {
  EXPECT_EQ(ratio_bar(1), "     │     ");
  EXPECT_EQ(ratio_bar(2), "     │█████");
  EXPECT_EQ(ratio_bar(25), "     │█████");
  EXPECT_EQ(ratio_bar(0.5), "█████│     ");
  EXPECT_EQ(ratio_bar(0.01), "█████│     ");
  EXPECT_EQ(ratio_bar(0.93), "    ▐│     ") << "a tenth of a halving: half a cell";
  EXPECT_EQ(ratio_bar(0), "");
  for (double ratio = 0.4; ratio < 2.5; ratio *= 1.03)
    EXPECT_EQ(columns_of(ratio_bar(ratio)), 11u) << ratio;
}

TEST(Bars, SparklinesReachFromTheLeastToTheMost) {
  EXPECT_EQ(sparkline({}, 8), "");
  EXPECT_EQ(sparkline({3}, 8), "█");
  EXPECT_EQ(sparkline({1, 2, 3}, 8), "▁▅█");
  EXPECT_EQ(sparkline({0, 1, 2}, 8), " ▁█") << "no value yet";
  EXPECT_EQ(sparkline({1, 2, 3, 4, 5, 6, 7, 8}, 2), "▁█") << "the last of each half: 4 and 8";
}

BenchReport raced() {
  BenchReport report;
  const auto add = [&](int threads, std::int64_t m, double peer_ns) {
    ContestResult row{.gemm = Gemm::row_major(m, 64, 64), .threads = threads};
    row.kiln = {.median_ns = 100, .low_ns = 99, .high_ns = 101, .samples = 9};
    row.peers["blas"] = {.median_ns = peer_ns, .low_ns = peer_ns, .high_ns = peer_ns, .samples = 9};
    row.verified = m != 999;
    report.rows.push_back(row);
  };
  add(1, 8, 50), add(1, 64, 200), add(2, 64, 150), add(1, 999, 300);
  report.rows.push_back({.gemm = Gemm::row_major(7, 7, 7), .kiln = report.rows[0].kiln});
  return report;
}

TEST(RaceTable, HasBarsWhereTheyAreAskedFor) {
  EXPECT_THAT(table(raced()), Not(HasSubstr("█")));
  const std::string bars = table(raced(), true);
  EXPECT_THAT(bars, HasSubstr("0.50  █████│          ok"));
  EXPECT_THAT(bars, HasSubstr("2.00       │█████     ok"));
  EXPECT_THAT(bars, HasSubstr("none         -      -               WRONG"));
}

TEST(RaceChart, HasAPanelForThreadsASeriesForAClassAndANameForAPoint) {
  const std::string chart = svg(raced());
  EXPECT_THAT(chart, HasSubstr("cpu, 1 thread</text>"));
  EXPECT_THAT(chart, HasSubstr("cpu, 2 threads</text>"));
  EXPECT_THAT(chart, HasSubstr(">fp32 N N</text>"));
  EXPECT_THAT(chart, HasSubstr("<title>fp32 N N 8 64 64: 0.50 of blas</title>"));
  EXPECT_THAT(chart, Not(HasSubstr("999"))) << "a wrong result has no speedup";
  EXPECT_THAT(chart, Not(HasSubstr("7 7 7"))) << "nobody raced it";
}

TEST(RaceChart, LongAxesAreMarkedInThousands) {
  const std::string chart =
      chart_svg({{.series = {{"one", {{1e3, 0.5}, {1e10, 4}}}}, .log_y = true}});
  for (const char* mark : {">1k<", ">1M<", ">10G<", ">0.5<", ">2<"})
    EXPECT_THAT(chart, HasSubstr(mark));
  EXPECT_THAT(chart, Not(HasSubstr("e+")));
}

/// The command on a terminal of its own, which has UTF-8.
KilnCommand on_terminal() {
  return {.launcher = {"python3", "-c",
                       "import os, pty, sys; "
                       "sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"},
          .environment = {{"LC_ALL", "C.UTF-8"}}};
}

/// Its own database, and calls that it recorded.
std::string recorded(KilnCommand& kiln) {
  kiln.environment["KILN_DB"] = (kiln.folder / "kiln.db").string();
  const std::string file = (kiln.folder / "calls").string();
  const std::vector<RecordedCalls> calls{{.device = fingerprint(detect_cpu(1).value()),
                                          .gemm = Gemm::row_major(24, 24, 24),
                                          .threads = 1,
                                          .calls = 10,
                                          .timed_calls = 10,
                                          .timed_ns = 1e4}};
  EXPECT_TRUE(add_calls(file, calls, kLongWait));
  return file;
}

TEST(TerminalBars, AreInReportsAndInTheProgressOfTuning) {
  KilnCommand terminal = on_terminal();
  const std::string calls = recorded(terminal);
  const auto report = terminal({"report", "--recorded", calls});
  EXPECT_EQ(report.exit_code, 0) << report.out;
  EXPECT_THAT(report.out, HasSubstr("100.0 %  ████████████  1.00 us"));
  const auto tuned = terminal({"tune", "--shape", "fp32 N N 64 64 64", "--threads", "1", "--budget",
                               "1h", "--candidates", "16"});
  EXPECT_EQ(tuned.exit_code, 0) << tuned.out;
  EXPECT_THAT(tuned.out, testing::ContainsRegex("█  best [0-9.]+ [nu]s"));
  const auto raced = terminal({"bench", "--shape", "fp32 N N 64 64 64", "--threads", "1",
                               "--samples", "3", "--svg", (terminal.folder / "race.svg").string()});
  EXPECT_EQ(raced.exit_code, 0) << raced.out;
  EXPECT_THAT(raced.out, testing::AnyOf(HasSubstr("│"), HasSubstr(" 0 beside a peer")));
  EXPECT_THAT(KilnCommand::read(terminal.folder / "race.svg"), HasSubstr("</svg>"));
}

TEST(TerminalBars, AreNowhereElse) {
  KilnCommand piped;
  const std::string calls = recorded(piped);
  EXPECT_THAT(piped({"report", "--recorded", calls}).out, Not(HasSubstr("█")));
  KilnCommand ascii = on_terminal();
  ascii.environment["LC_ALL"] = "C";
  const auto report = ascii({"report", "--recorded", recorded(ascii)});
  EXPECT_EQ(report.exit_code, 0) << report.out;
  EXPECT_THAT(report.out, Not(HasSubstr("█")));
}

}  // namespace kiln::bars_test
