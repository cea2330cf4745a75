// `kiln bench --any-m`: what is drawn, what the summary says, and a whole race.
#include "bench/range_race.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/svg.h"
#include "support/temp_dir.h"

namespace kiln::range_race_test {

using testing::HasSubstr;

TEST(RangeRace, DrawsDifferentSizesOfTheRangeTheSameForASeed) {
  const GemmRange range = Gemm::row_major(1, 64, 64).with_m(1, 8192);
  const auto sizes = drawn_sizes(range, 40, 7);
  EXPECT_EQ(sizes.size(), 40u);
  EXPECT_TRUE(std::ranges::is_sorted(sizes));
  EXPECT_EQ(std::ranges::adjacent_find(sizes), sizes.end());
  EXPECT_GE(sizes.front(), 1);
  EXPECT_LE(sizes.back(), 8192);
  EXPECT_TRUE(std::ranges::any_of(sizes, [](std::int64_t m) { return m > 256 && m % 2 == 1; }));
  EXPECT_EQ(drawn_sizes(range, 40, 7), sizes);
  EXPECT_NE(drawn_sizes(range, 40, 8), sizes);
  // Log-uniform: about as many below the root of the largest as above it.
  const auto small = std::ranges::count_if(sizes, [](std::int64_t m) { return m <= 90; });
  EXPECT_GT(small, 10);
  EXPECT_LT(small, 30);
  EXPECT_EQ(drawn_sizes(Gemm::row_major(1, 64, 64).with_n(3, 7), 40, 1).size(), 5u);
}

RangeRaceReport made_report() {
  RangeRaceReport report{.device = "cpu", .ranges = {Gemm::row_major(1, 64, 64).with_m(1, 100)}};
  const auto row = [&](std::int64_t m, double kiln, double alone, double peer) {
    RangeRaceRow made;
    made.race.gemm = report.ranges[0].at(m);
    made.race.kiln.median_ns = kiln;
    made.race.others = {{alone, alone, alone, 9}};
    made.race.peers["blas"].median_ns = peer;
    made.race.verified = true;
    report.rows.push_back(made);
  };
  row(1, 100, 100, 200);
  row(10, 110, 99, 110);
  row(50, 104, 104, 130);
  return report;
}

TEST(RangeRace, TheSummaryComparesWithEachOtherAndWithLargerSizes) {
  const RangeRaceSummary summary = summarise(made_report());
  ASSERT_EQ(summary.against.count("alone"), 1u);
  const auto& alone = summary.against.at("alone");
  EXPECT_EQ(alone.sizes, 3);
  EXPECT_NEAR(alone.worst, 0.9, 1e-12);
  EXPECT_EQ(alone.worst_shape, "fp32 N N 10 64 64");
  EXPECT_NEAR(alone.mean, std::cbrt(0.9), 1e-12);
  EXPECT_NEAR(summary.slower_than_larger, 110.0 / 104 - 1, 1e-12);
  EXPECT_EQ(summary.slower_shape, "fp32 N N 10 64 64");
  EXPECT_EQ(summary.verified, 3);
  EXPECT_THAT(text(summary), HasSubstr("against alone: 0.965"));
  EXPECT_THAT(to_json(summary).dump(), HasSubstr("\"worst_shape\":\"fp32 N N 10 64 64\""));
  EXPECT_THAT(table(made_report()), HasSubstr("blas 2.000"));
}

TEST(RangeRace, TheChartHasAPanelARangeAndALineEach) {
  const std::string chart = svg(made_report());
  EXPECT_THAT(chart, testing::StartsWith("<svg "));
  EXPECT_THAT(chart, HasSubstr("fp32 N N 1..100 64 64, cpu"));
  EXPECT_THAT(chart, HasSubstr(">alone</text>"));
  EXPECT_THAT(chart, HasSubstr("<polyline"));
  EXPECT_THAT(chart, Not(HasSubstr("nan")));
}

TEST(Chart, NoPointsAndOddValuesMakeADocumentStill) {
  EXPECT_THAT(chart_svg({}), HasSubstr("</svg>"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string chart = chart_svg(
      {{.title = "a < b & c", .series = {{"one", {{1, nan}, {0, 1}, {5, 5}}}}}, {.series = {}}});
  EXPECT_THAT(chart, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(chart, Not(HasSubstr("nan")));
  EXPECT_THAT(chart, Not(HasSubstr("inf")));
}

TEST(RangeRace, RacesWhatIsRunBesideAKernelTunedAlone) {
  const TempDir dir;
  RangeRaceOptions options{.ranges = {Gemm::row_major(1, 48, 32).with_m(30, 60)}, .count = 2};
  options.threads = 1;
  options.open.database = dir / "kiln.db";
  options.open.on_untuned = [](const std::string&) {};
  // clock: spent or not, each search has a winner
  options.budget = std::chrono::duration<double>(0.2);
  options.peers = {};
  options.contest.samples = 5;
  const auto report = run_range_race(options);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->rows.size(), 2u);
  for (const RangeRaceRow& row : report->rows) {
    EXPECT_TRUE(row.race.verified) << row.race.fault;
    ASSERT_EQ(row.race.others.size(), 1u);
    EXPECT_GT(row.race.others[0].median_ns, 0);
  }
  EXPECT_FALSE(run_range_race({.ranges = {Gemm::row_major(1, 4, 4).with_m(9, 3)}}));
}

}  // namespace kiln::range_race_test
