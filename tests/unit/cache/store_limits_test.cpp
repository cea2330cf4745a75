// What a machine was seen to reach, kept by device, and the roofs of records that follow from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cache/exchange/merge.h"
#include "cache/exchange/transfer.h"
#include "cache/records/devices.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/prune.h"
#include "cache/records/stored_roofline.h"
#include "cache/records/winners.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::store_limits_test {

using test::key_of;
using test::kNow;
using test::open_store;
using test::tamper;
using testing::SizeIs;

/// Figures that differ from each other.
MachineLimits limits_of(const DeviceCaps& device, double scale) {
  MachineLimits limits{.device = device};
  double at = 1;
  for_each_limit(limits, [&](std::string_view, double& value) { value = 1e9 * scale * at++; });
  return limits;
}

std::vector<double> figures(const std::optional<MachineLimits>& limits) {
  std::vector<double> all;
  if (limits)
    for_each_limit(*limits, [&](std::string_view, double value) { all.push_back(value); });
  return all;
}

TEST(StoredLimits, AreThoseOfADevicesThreadsMeasuredLast) {
  TempDir dir;
  DeviceCaps one = key_of(1, 1, 1).device, two = one;
  two.compute_units = 2;
  {
    auto store = open_store(dir / "kiln.db");
    EXPECT_FALSE(store->devices().limits(one));
    ASSERT_TRUE(store->devices().put_limits(limits_of(one, 9)));
    ASSERT_TRUE(store->devices().put_limits(limits_of(one, 3)));
    ASSERT_TRUE(store->devices().put_limits(limits_of(two, 5)));
  }
  auto store = open_store(dir / "kiln.db");
  EXPECT_EQ(figures(store->devices().limits(one)), figures(limits_of(one, 3)))
      << "less than before, too";
  EXPECT_EQ(figures(store->devices().limits(two)), figures(limits_of(two, 5)));
  EXPECT_THAT(store->devices().limits(one)->measured,
              testing::MatchesRegex("20..-..-..T..:..:..Z"));
  EXPECT_EQ(store->devices().limits(two)->device, two);
  MachineLimits wrong = limits_of(one, 1);
  wrong.l2_read = std::nan("");
  EXPECT_FALSE(store->devices().put_limits(wrong));
  EXPECT_FALSE(store->devices().put_limits(MachineLimits{.device = one})) << "nothing was measured";
  EXPECT_EQ(figures(store->devices().limits(one)), figures(limits_of(one, 3)));
}

TEST(StoredLimits, TheNewerOfTwoFilesCounts) {
  TempDir dir;
  const DeviceCaps device = key_of(1, 1, 1).device;
  const auto made = [&](const char* file, double scale, const char* day) {
    ASSERT_TRUE(open_store(dir / file)->devices().put_limits(limits_of(device, scale)));
    tamper(dir / file, fmt::format("UPDATE limits SET created = '2026-01-{}T10:00:00Z'", day));
  };
  made("older.db", 9, "01");
  made("newer.db", 2, "02");
  const auto expected = figures(limits_of(device, 2));
  for (const auto& [own, other] : {std::pair{"older.db", "newer.db"}, {"newer.db", "older.db"}}) {
    EXPECT_EQ(figures(open_store(dir / own, {dir / other})->devices().limits(device)), expected)
        << own;
    for (const bool merges : {false, true}) {
      const auto file = dir / fmt::format("{}{}", own, merges);
      std::filesystem::copy_file(dir / own, file);
      auto store = open_store(file);
      ASSERT_TRUE(merges ? store->transfer().merge_from({dir / other}, {}).has_value()
                         : store->transfer().import_from(dir / other).has_value());
      EXPECT_EQ(figures(store->devices().limits(device)), expected) << own << ' ' << merges;
    }
  }
  auto store = open_store(dir / "older.db");
  ASSERT_TRUE(store->transfer().export_to(dir / "app.kiln"));
  EXPECT_THAT(figures(open_store(dir / "new.db", {dir / "app.kiln"})->devices().limits(device)),
              SizeIs(8));
}

TEST(StoredLimits, OnesThatCannotBeAreNoneAndAreRepaired) {
  for (const char* change : {"fp32_flops = 0.0", "l1_read = -1.0", "dram_read = 1e300"}) {
    TempDir dir;
    const DeviceCaps device = key_of(1, 1, 1).device;
    ASSERT_TRUE(open_store(dir / "kiln.db")->devices().put_limits(limits_of(device, 1)));
    tamper(dir / "kiln.db", fmt::format("UPDATE limits SET {}", change));
    auto store = open_store(dir / "kiln.db");
    EXPECT_FALSE(store->devices().limits(device)) << change;
    EXPECT_EQ(store->maintenance().check(true)->problems.size(), 1u) << change;
    EXPECT_TRUE(store->maintenance().check(false)->ok()) << change;
  }
}

TEST(StoredLimits, StayAsLongAsTheirDevice) {
  TempDir dir;
  const DeviceCaps device = key_of(1, 1, 1).device;
  auto store = open_store(dir / "kiln.db");
  test::store_winner(*store, key_of(64, 96, 128), 6);
  ASSERT_TRUE(store->devices().put_limits(limits_of(device, 1)));
  ASSERT_TRUE(store->maintenance().prune({.older_than_days = 0, .winners_too = true}));
  EXPECT_TRUE(store->devices().limits(device)) << "as peaks do, whatever their age";
  EXPECT_TRUE(store->maintenance().check(false)->ok());
  const auto pruned =
      store->maintenance().prune({.device = fingerprint(device), .winners_too = true});
  ASSERT_TRUE(pruned) << pruned.error().message;
  EXPECT_EQ(pruned->dropped.at("limits"), 1);
  EXPECT_FALSE(store->devices().limits(device));
}

// A file of schema 16 has no such table; it is made when the file is opened where it can be
// written.
TEST(StoredLimits, AFileFromBeforeThemGetsTheirTable) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  {
    auto old = open_store(dir / "old.db");
    ASSERT_TRUE(old->measurements().put(key, kNow, test::timed(6, 1000)));
    ASSERT_TRUE(old->winners().make_winner(key, kNow, test::config_of(6)));
  }
  {
    SQLite::Database db((dir / "old.db").string(), SQLite::OPEN_READWRITE);
    test::drop_columns_since(db, 16);
  }
  tamper(dir / "old.db",
         "PRAGMA journal_mode = DELETE; DROP TABLE limits; PRAGMA user_version = 16");
  EXPECT_FALSE(open_store(dir / "old.db")->devices().limits(key.device)) << "its table was made";
  auto store = open_store(dir / "kiln.db", {dir / "old.db"});
  EXPECT_THAT(*store->winners().list(), SizeIs(1));
  EXPECT_FALSE(store->devices().limits(key.device));
  EXPECT_TRUE(store->maintenance().check(false)->ok());
  ASSERT_TRUE(store->transfer().export_to(dir / "app.kiln"));
  ASSERT_TRUE(store->devices().put_limits(limits_of(key.device, 1)));
  EXPECT_TRUE(store->devices().limits(key.device));
}

TEST(StoredRoofline, IsOfTheDevicesLimitsRaisedToItsPeak) {
  TempDir dir;
  auto store = open_store(dir / "kiln.db");
  const BestKey key = key_of(2048, 2048, 2048);
  EXPECT_FALSE(stored_roofline(*store, key.device, key.gemm));
  MachineLimits limits = limits_of(key.device, 1);
  limits.fp32_flops = 1e11;
  ASSERT_TRUE(store->devices().put_limits(limits));
  const auto computed = stored_roofline(*store, key.device, key.gemm);
  ASSERT_TRUE(computed);
  EXPECT_TRUE(computed->roof.arithmetic());
  EXPECT_DOUBLE_EQ(computed->roof.ns, key.gemm.flops() / 1e11 * 1e9);
  ASSERT_TRUE(store->devices().raise_peak(key.device, fp32, 2e11));
  EXPECT_DOUBLE_EQ(stored_roofline(*store, key.device, key.gemm)->roof.ns,
                   key.gemm.flops() / 2e11 * 1e9);
  const auto read = stored_roofline(*store, key.device, Gemm::row_major(1, 8192, 8192));
  EXPECT_EQ(read->roof.of, "memory");
  EXPECT_EQ(read->roof.rate, limits.dram_read);
  // Three parts of bf16, six products: faster than fp32 where the peak of bf16 is more than six.
  Gemm tensor = key.gemm;
  tensor.numerics = Numerics::tensor;
  limits.bf16_flops = 18e11;
  EXPECT_EQ(peak_for(tensor, limits), 3e11);
  EXPECT_EQ(peak_for(key.gemm, limits), 1e11);
}

}  // namespace kiln::store_limits_test
