// Comparing databases, and making one smaller.
#include "cache/records/prune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/exchange/diff.h"
#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/ranges.h"
#include "cache/records/winners.h"
#include "support/database_dump.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::prune_test {

using test::config_of;
using test::key_of;
using test::kNow;
using test::open_store;
using test::store_winner;
using test::tamper;
using test::timed;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

StoredMeasurement won(std::int64_t m, int mr, const Timing& timing, std::string created = "1") {
  StoredMeasurement row{
      .key = key_of(m, 96, 128), .validators = kNow, .winner = true, .created = std::move(created)};
  row.measured = timed(mr, timing.median_ns);
  row.measured.outcome = timing;
  return row;
}

TEST(Diff, SaysWhatTheIntervalsSupport) {
  const Timing base{1000, 990, 1010, 31};
  const auto one = [&](const Timing& newer, int mr = 6) {
    return diff_winners({won(1, 6, base)}, {won(1, mr, newer)}).at(0);
  };
  EXPECT_EQ(one({900, 890, 910, 31}).change, RowChange::faster);
  EXPECT_NEAR(one({900, 890, 910, 31}).ratio, 1000.0 / 900, 1e-12);
  EXPECT_EQ(one({1100, 1090, 1110, 31}).change, RowChange::slower);
  EXPECT_EQ(one({995, 985, 1005, 31}).change, RowChange::same);
  EXPECT_EQ(one({500, 500, 500, 5}).change, RowChange::same) << "five samples are a range";
  EXPECT_TRUE(one(base, 8).other_winner);
  EXPECT_FALSE(one(base).other_winner);
}

TEST(Diff, PairsByKeyAndTakesTheNewestWinner) {
  const Timing time{1000, 990, 1010, 31}, quick{500, 490, 510, 31};
  const auto rows = diff_winners({won(1, 6, time), won(2, 6, time)},
                                 {won(2, 6, time, "1"), won(2, 8, quick, "2"), won(3, 6, time)});
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].change, RowChange::only_old);
  EXPECT_EQ(rows[1].change, RowChange::faster);
  EXPECT_TRUE(rows[1].other_winner);
  EXPECT_EQ(rows[2].change, RowChange::only_new);
  EXPECT_NEAR(mean_ratio(rows), 2, 1e-12);
  EXPECT_EQ(mean_ratio({}), 1);
}

/// Two devices with a winner, a loser with code, and a failure each.
void fill_store(Store& store) {
  for (const char* cpu : {"avx512", "avx2"}) {
    BestKey key = key_of(64, 96, 128);
    key.device = cpu_caps_named(cpu).value();
    store_winner(store, key, 6);
    ASSERT_TRUE(store.measurements().put(key, kNow, timed(9, 3000)));
    ASSERT_TRUE(store.binaries().put(test::code_of(9)));
    ASSERT_TRUE(store.measurements().put_search(key, kNow, {.budget_seconds = 1, .enumerated = 9}));
    ASSERT_TRUE(store.ranges().put(key, key.gemm.with_m(1, 64), {{{64, 64, config_of(6), 1e3}}}));
  }
}

TEST(Prune, KeepsWinnersWithTheirCode) {
  TempDir dir;
  auto store = open_store(dir / "kiln.db");
  fill_store(*store);
  const std::string before = test::database_dump(dir / "kiln.db");
  const auto dry =
      store->maintenance().prune({.older_than_days = 1, .device = "avx512", .dry_run = true});
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_EQ(test::first_difference(test::database_dump(dir / "kiln.db"), before), "");
  EXPECT_EQ(dry->dropped, (std::map<std::string, std::int64_t>{})) << "none is a day old";

  const auto one = store->maintenance().prune({.device = "model=\"avx512\""});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->dropped, (std::map<std::string, std::int64_t>{{"measurement", 2}}));
  EXPECT_TRUE(store->binaries().by_key("binary9")) << "the other device's loser has the same code";
  tamper(dir / "kiln.db", "UPDATE measurement SET created = '2020-01-01T00:00:00Z'");
  const auto old = store->maintenance().prune({.older_than_days = 90});
  ASSERT_TRUE(old);
  EXPECT_EQ(old->winners, 0);
  EXPECT_EQ(old->dropped.at("measurement"), 2);
  EXPECT_EQ(old->dropped.at("binary"), 1);
  EXPECT_FALSE(store->binaries().by_key("binary9"));
  EXPECT_EQ(store->winners().best(key_of(64, 96, 128), kNow)->image, test::code_of(6).image);
  EXPECT_THAT(*store->ranges().list(), SizeIs(2));
  EXPECT_TRUE(store->maintenance().check(false)->ok());
}

TEST(Prune, ADeviceThatIsGoneLeavesNothing) {
  TempDir dir;
  auto store = open_store(dir / "kiln.db");
  fill_store(*store);
  const auto gone = store->maintenance().prune({.device = "model=\"avx2\"", .winners_too = true});
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->winners, 1);
  EXPECT_EQ(gone->dropped.at("device"), 1);
  EXPECT_EQ(gone->dropped.at("search"), 1);
  EXPECT_THAT(*store->winners().list(), SizeIs(1));
  EXPECT_THAT(*store->ranges().list(), SizeIs(1));
  EXPECT_TRUE(store->winners().best(key_of(64, 96, 128), kNow));
  EXPECT_TRUE(store->maintenance().check(false)->ok());
}

TEST(Prune, LosersOfConfigsThatWonNowhereGoFirst) {
  TempDir dir;
  auto store = open_store(dir / "kiln.db");
  for (int m = 1; m <= 60; ++m) {
    store_winner(*store, key_of(m, 96, 128), 6 + m % 2);
    ASSERT_TRUE(store->measurements().put(key_of(m, 96, 128), kNow, timed(7 - m % 2, 5000)));
    for (int mr = 10; mr < 30; ++mr)
      ASSERT_TRUE(store->measurements().put(key_of(m, 96, 128), kNow, timed(mr, 1000 + 10 * mr)));
  }
  const auto dry = store->maintenance().prune({.most_bytes = 1 << 30});
  ASSERT_TRUE(dry);
  const auto half = store->maintenance().prune({.most_bytes = dry->bytes_before * 6 / 10});
  ASSERT_TRUE(half);
  EXPECT_TRUE(half->small_enough);
  EXPECT_LT(store->maintenance().stats()->at(0).measurements, 60 * 15);
  int slow = 0;
  ASSERT_TRUE(store->measurements().each({}, [&](const StoredMeasurement& row) {
    slow += row.measured.ok() && row.measured.timing().median_ns == 5000;
  }));
  EXPECT_EQ(slow, 60) << "they won elsewhere: fitted models learn from them";
}

TEST(Prune, ASizeTakesCodeOfLosersThenLosersTheSlowestFirst) {
  TempDir dir;
  auto store = open_store(dir / "kiln.db");
  for (int m = 1; m <= 60; ++m) {
    store_winner(*store, key_of(m, 96, 128), 6);
    for (int mr = 10; mr < 30; ++mr)
      ASSERT_TRUE(store->measurements().put(key_of(m, 96, 128), kNow, timed(mr, 1000 + 10 * mr)));
  }
  const auto none = store->maintenance().prune({.most_bytes = 4096});
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->small_enough);
  EXPECT_EQ(store->maintenance().stats()->at(0).measurements, 60 * 22) << "nothing was dropped";
  const auto half = store->maintenance().prune({.most_bytes = none->bytes_before * 7 / 10});
  ASSERT_TRUE(half);
  EXPECT_TRUE(half->small_enough);
  EXPECT_LE(half->bytes_after, none->bytes_before * 8 / 10) << "pages are never quite full";
  EXPECT_EQ(half->winners, 0);
  double slowest = 0;
  ASSERT_TRUE(store->measurements().each({}, [&](const StoredMeasurement& row) {
    if (row.measured.ok()) slowest = std::max(slowest, row.measured.timing().median_ns);
    EXPECT_TRUE(row.measured.ok()) << "failures went first";
  }));
  EXPECT_GT(slowest, 1000);
  EXPECT_LT(slowest, 1290);
  EXPECT_THAT(*store->winners().list(), SizeIs(60));
  EXPECT_TRUE(store->maintenance().check(false)->ok());
}

TEST(Prune, NeedsACondition) {
  auto store = open_store({});
  const auto nothing = store->maintenance().prune({});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::bad_input);
  EXPECT_THAT(nothing.error().message, HasSubstr("age, a device or a size"));
}

}  // namespace kiln::prune_test
