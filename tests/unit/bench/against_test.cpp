// A race beside an earlier one: what counts as slower, and what does not.
#include "bench/against.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kiln::against_test {

using testing::ElementsAre;
using testing::HasSubstr;

/// A row whose median lies in an interval of ± `share`.
ContestResult row_of(std::int64_t m, double ns, double share = 0.01, int samples = 31) {
  ContestResult row;
  row.gemm = Gemm::row_major(m, 8, 8);
  row.kiln = {ns, ns * (1 - share), ns * (1 + share), samples};
  row.peers["blas"] = {2 * ns, 2 * ns, 2 * ns, samples};
  row.verified = true;
  return row;
}

BenchReport report_of(std::vector<ContestResult> rows) {
  BenchReport report;
  report.rows = std::move(rows);
  return report;
}

/// The rows as `kiln bench --json` prints them.
std::vector<EarlierRow> earlier(const std::vector<ContestResult>& rows) {
  std::string text;
  for (const ContestResult& row : rows) text += to_json(row, "cpu").dump() + "\n";
  return parse_earlier(text + to_json(summarise(report_of(rows))).dump() + "\n", "old").value();
}

std::vector<Trend> trends(const Against& against) {
  std::vector<Trend> all;
  for (const Change& change : against.changes) all.push_back(change.trend);
  return all;
}

TEST(Against, SlowerFasterAndTheSame) {
  const auto before = earlier({row_of(1, 1000), row_of(2, 1000), row_of(3, 1000), row_of(4, 1000)});
  const auto now =
      report_of({row_of(1, 1100), row_of(2, 900), row_of(3, 1005), row_of(4, 1100, 0.2)});
  const Against against = compare(now, before, {});
  EXPECT_THAT(trends(against), ElementsAre(Trend::slower, Trend::faster, Trend::same, Trend::same));
  EXPECT_NEAR(against.ratio, std::pow(1.1 * 0.9 * 1.005 * 1.1, 0.25), 1e-9);
  EXPECT_NEAR(against.peers, against.ratio, 1e-9);
  EXPECT_THAT(text(against, {}),
              testing::AllOf(HasSubstr("fp32 N N 1 8 8, 1 thread: slower, +10.0 %"),
                             HasSubstr("1 slower, 1 faster, 2 the same within 2 %")));
  EXPECT_EQ(to_json(against, {})["against"]["rows"][0]["trend"], "slower");
}

TEST(Against, WithinTheToleranceIsTheSameHoweverSure) {
  const auto before = earlier({row_of(1, 1000, 0.0001)});
  const auto now = report_of({row_of(1, 1019, 0.0001)});
  EXPECT_THAT(trends(compare(now, before, {})), ElementsAre(Trend::same));
  EXPECT_THAT(trends(compare(now, before, {.tolerance = 0.01})), ElementsAre(Trend::slower));
}

TEST(Against, WhatCannotBeComparedIsUnknown) {
  ContestResult other = row_of(2, 1000);
  other.policy = "gpu-cold-v1";
  const auto before = earlier({row_of(1, 1000, 0.01, 5), other, row_of(9, 1)});
  const auto now = report_of({row_of(1, 9000), row_of(2, 9000), row_of(3, 1)});
  const Against against = compare(now, before, {});
  EXPECT_THAT(trends(against), ElementsAre(Trend::unknown, Trend::unknown));
  EXPECT_THAT(against.changes[0].why, HasSubstr("5 and 31 samples"));
  EXPECT_THAT(against.changes[1].why, HasSubstr("gpu-cold-v1"));
  EXPECT_THAT(against.missing, ElementsAre("fp32 N N 9 8 8, 1 thread"));
}

// Medians of 31 samples with their order-statistic intervals, as kiln bench takes them.
Timing timing_of(std::mt19937_64& random, double ns) {
  std::lognormal_distribution<double> noise(0, 0.03);
  std::vector<double> samples(31);
  for (double& sample : samples) sample = ns * noise(random);
  std::sort(samples.begin(), samples.end());
  return {samples[15], samples[9], samples[21], 31};  // ranks 10 and 22 of 31: 95 %
}

TEST(Against, TwoHundredEqualShapesAreSeldomSaidToDiffer) {
  std::mt19937_64 random(5);
  int wrong = 0;
  for (int run = 0; run < 100; ++run) {
    std::vector<ContestResult> then, now;
    for (int m = 1; m <= 200; ++m) {
      then.push_back(row_of(m, 1000));
      now.push_back(row_of(m, 1000));
      then.back().kiln = timing_of(random, 1000);
      now.back().kiln = timing_of(random, 1000);
    }
    std::vector<EarlierRow> before;
    for (const ContestResult& row : then)
      before.push_back({text(row.gemm), 1, "cpu", row.policy, row.kiln, {}});
    const Against against = compare(report_of(now), before, {.tolerance = 0});
    wrong += against.count(Trend::same) != 200;
  }
  // 5 in 100 are promised; the interval's width is itself an estimate, so a few more are allowed.
  EXPECT_LE(wrong, 20);
}

TEST(Against, OneSlowShapeAmongTwoHundredIsFound) {
  std::mt19937_64 random(6);
  std::vector<ContestResult> now;
  std::vector<EarlierRow> before;
  for (int m = 1; m <= 200; ++m) {
    now.push_back(row_of(m, 1000));
    now.back().kiln = timing_of(random, m == 77 ? 1150 : 1000);
    before.push_back(
        {text(now.back().gemm), 1, "cpu", now.back().policy, timing_of(random, 1000), {}});
  }
  const Against against = compare(report_of(now), before, {});
  EXPECT_EQ(against.count(Trend::slower), 1);
  EXPECT_EQ(against.changes[76].trend, Trend::slower);
}

TEST(Against, BadFilesAreNamedByLineAndField) {
  const auto message = [](std::string_view text) {
    const auto rows = parse_earlier(text, "old.jsonl");
    EXPECT_FALSE(rows) << text;
    return rows ? std::string() : rows.error().message;
  };
  EXPECT_THAT(message(""), HasSubstr("old.jsonl: holds no race"));
  EXPECT_THAT(message("{\"summary\": {}}\n"), HasSubstr("holds no race"));
  EXPECT_THAT(message("{}\nfp32 N N 1 2 3\n"), HasSubstr("old.jsonl:2: no JSON object"));
  OrderedJson row = to_json(row_of(1, 1000), "cpu");
  for (const char* field : {"shape", "device", "policy", "kiln_low_ns", "threads", "samples"}) {
    OrderedJson less = row;
    less.erase(field);
    EXPECT_THAT(message(less.dump()), HasSubstr(std::string("old.jsonl:1: ") + field));
  }
  row["shape"] = "fp31 N N 1 8 8";
  EXPECT_THAT(message(row.dump()), HasSubstr("dtype = \"fp31\""));
}

TEST(Against, TheLastRowOfAShapeCounts) {
  const auto rows = earlier({row_of(1, 500), row_of(1, 1000)});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].kiln.median_ns, 1000);
}

}  // namespace kiln::against_test
