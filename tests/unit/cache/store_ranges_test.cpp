// Tables of tuned ranges in the database: written, found, merged, damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/exchange/transfer.h"
#include "cache/record.h"
#include "cache/records/maintenance.h"
#include "cache/records/ranges.h"
#include "cache/records/winners.h"
#include "cache/rows/range_kernels.h"
#include "cache/rows/range_table.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::store_ranges_test {

using test::config_of;
using test::key_of;
using test::open_store;
using test::tamper;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const BestKey kKey = key_of(1000, 96, 128);
GemmRange range() { return kKey.gemm.with_m(10, 1000); }
RangeTable table() {
  return {
      {{40, 16, config_of(6), 1500}, {500, 64, config_of(8), 9000}, {1000, 16, config_of(6), 2e4}}};
}

TEST(RangeTable, TextAndBack) {
  EXPECT_EQ(RangeTable::parse(table().text(), range())->cells, table().cells);
  EXPECT_EQ(table().kernels(), 2u);
  EXPECT_EQ(table().at(10).last, 40);
  EXPECT_EQ(table().at(40).last, 40);
  EXPECT_EQ(table().at(41).last, 500);
  EXPECT_EQ(table().at(1000).last, 1000);
}

TEST(RangeTable, RefusesWhatIsNoTableOfTheRange) {
  const std::string good = table().text();
  const auto parses = [](const std::string& text) {
    return RangeTable::parse(text, range()).has_value();
  };
  EXPECT_TRUE(parses(good));
  EXPECT_FALSE(parses(""));
  EXPECT_FALSE(parses(good.substr(0, good.size() - 1))) << "no last line end";
  EXPECT_FALSE(parses(good.substr(good.find('\n') + 1) + "40 16 1500 " + text(config_of(6)) + "\n"))
      << "descending";
  EXPECT_FALSE(parses(good.substr(0, good.rfind('\n', good.size() - 2) + 1))) << "ends too early";
  for (const char* line : {"1000 16 1500", "1000 5 1500 ", "1000 2000 1500 ", "1000 16 -1 ",
                           "1000 16 nan ", "1000 16 inf ", "x 16 1 ", "1001 16 1500 "})
    EXPECT_FALSE(parses(line + text(config_of(6)) + "\n")) << line;
  EXPECT_FALSE(parses("1000 16 1500 no_family a=1\n"));
}

TEST(StoreRanges, ATableIsFoundForEachProblemOfTheRangeInEverySpelling) {
  auto store = open_store({});
  ASSERT_TRUE(store->ranges().put(kKey, range(), table()));
  BestKey key = kKey;
  for (const std::int64_t m : {1, 10, 77, 5000}) {
    key.gemm.m = m;
    const auto found = store->ranges().like(key, Size::m);
    ASSERT_THAT(found, SizeIs(1)) << m;
    EXPECT_EQ(found[0].range, range());
    EXPECT_EQ(found[0].table.cells, table().cells);
  }
  key.gemm.a.ld = 128;  // tight
  EXPECT_THAT(store->ranges().like(key, Size::m), SizeIs(1));
  EXPECT_THAT(store->ranges().like(key, Size::n), IsEmpty());
}

TEST(StoreRanges, AnotherProblemDeviceOrPolicyHasNone) {
  auto store = open_store({});
  ASSERT_TRUE(store->ranges().put(kKey, range(), table()));
  const auto none = [&](const char* what, auto change) {
    BestKey key = kKey;
    change(key);
    EXPECT_THAT(store->ranges().like(key, Size::m), IsEmpty()) << what;
  };
  none("n", [](BestKey& key) { ++key.gemm.n; });
  none("k", [](BestKey& key) { ++key.gemm.k; });
  none("lda", [](BestKey& key) { key.gemm.a.ld = 500; });
  none("batch", [](BestKey& key) { key.gemm.batch = 2; });
  none("epilogue", [](BestKey& key) { key.gemm.epilogue.residual = true; });
  none("alignment", [](BestKey& key) { key.gemm.alignment = 2; });
  none("threads", [](BestKey& key) { ++key.device.compute_units; });
  none("policy", [](BestKey& key) { key.policy = "other"; });
  none("determinism", [](BestKey& key) { key.determinism = Determinism::any; });
}

TEST(StoreRanges, TheSameRangeIsReplacedAndOthersStay) {
  auto store = open_store({});
  ASSERT_TRUE(store->ranges().put(kKey, range(), table()));
  const RangeTable better{{{1000, 16, config_of(12), 1}}};
  ASSERT_TRUE(store->ranges().put(kKey, range(), better));
  ASSERT_THAT(store->ranges().like(kKey, Size::m), SizeIs(1));
  EXPECT_EQ(store->ranges().like(kKey, Size::m)[0].table.cells, better.cells);
  const GemmRange wider = kKey.gemm.with_m(1, 1000);
  ASSERT_TRUE(store->ranges().put(kKey, wider, better));
  EXPECT_THAT(store->ranges().like(kKey, Size::m), SizeIs(2));
  EXPECT_THAT(*store->ranges().list(), SizeIs(2));
  EXPECT_EQ(store->maintenance().stats()->front().ranges, 2);
}

/// Kernels of a table are rows of their own: another winner of the size that one was tuned at takes
/// nothing away.
TEST(StoreRanges, KernelsStayWhenTheirSizeGetsAnotherWinner) {
  TempDir dir;
  auto store = open_store(dir / "a.kiln");
  BestKey at = kKey;
  at.gemm.m = 16;
  test::store_winner(*store, at, 6, 1000);
  const RangeTable one{{{1000, 16, config_of(6), 1}}};
  ASSERT_TRUE(store->ranges().put(kKey, range(), one));
  test::store_winner(*store, at, 8, 500);
  EXPECT_EQ(store->winners().best(at, test::kNow)->measured.config, config_of(8));
  BestKey kept = at;
  kept.policy = range_policy(at.policy, range());
  const auto kernel = store->winners().best(kept, test::kNow);
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->measured.config, config_of(6));
  EXPECT_EQ(kernel->image, test::code_of(6).image);
  EXPECT_THAT(store->winners().tuned_like(at, test::kNow), SizeIs(2));
  EXPECT_THAT(*store->winners().list(), SizeIs(1))
      << "the range's kernel is not a winner of a problem";
  EXPECT_THAT(*store->winners().list_kernels(), SizeIs(2));
  EXPECT_EQ(store->maintenance().stats()->front().winners, 1);
  ASSERT_TRUE(store->maintenance().check(false)->ok());
  // They travel with the table, and go with it.
  ASSERT_TRUE(store->transfer().export_to(dir / "b.kiln"));
  EXPECT_TRUE(open_store(dir / "b.kiln")->winners().best(kept, test::kNow));
  ASSERT_TRUE(store->ranges().put(kKey, range(), {{{1000, 16, config_of(8), 1}}}));
  EXPECT_EQ(store->winners().best(kept, test::kNow)->measured.config, config_of(8));
  EXPECT_THAT(*store->winners().list_kernels(), SizeIs(2));
}

TEST(StoreRanges, TravelWithExportImportAndShippedLayers) {
  TempDir dir;
  {
    auto store = open_store(dir / "a.kiln");
    ASSERT_TRUE(store->ranges().put(kKey, range(), table()));
    ASSERT_TRUE(store->transfer().export_to(dir / "b.kiln"));
  }
  auto shipped = open_store(dir / "own.kiln", {dir / "b.kiln"});
  ASSERT_THAT(shipped->ranges().like(kKey, Size::m), SizeIs(1));
  EXPECT_EQ(shipped->ranges().like(kKey, Size::m)[0].database, dir / "b.kiln");
  auto store = open_store(dir / "c.kiln");
  ASSERT_TRUE(store->transfer().import_from(dir / "b.kiln"));
  ASSERT_TRUE(store->transfer().import_from(dir / "b.kiln"));
  EXPECT_THAT(store->ranges().like(kKey, Size::m), SizeIs(1));
}

TEST(StoreRanges, ADamagedRowIsSkippedFoundAndRepaired) {
  for (const char* damage : {"UPDATE range SET data = x'00'", "UPDATE range SET hash = 'x'",
                             "UPDATE range SET first = 11", "UPDATE range SET last = 99",
                             "UPDATE range SET shape = 'fp32 N N 10..1000 96 129'",
                             "UPDATE range SET shape = 'nonsense'"}) {
    TempDir dir;
    {
      auto store = open_store(dir / "k.kiln");
      ASSERT_TRUE(store->ranges().put(kKey, range(), table()));
    }
    tamper(dir / "k.kiln", damage);
    auto store = open_store(dir / "k.kiln");
    EXPECT_THAT(store->ranges().like(kKey, Size::m), IsEmpty()) << damage;
    const auto checked = store->maintenance().check(true);
    ASSERT_TRUE(checked);
    ASSERT_THAT(checked->problems, SizeIs(1)) << damage;
    EXPECT_THAT(checked->problems[0], HasSubstr("range row"));
    EXPECT_TRUE(store->maintenance().check(false)->ok());
  }
}

}  // namespace kiln::store_ranges_test
