// How far a space was searched, as a row beside the winner.
#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cache/exchange/transfer.h"
#include "cache/keys.h"
#include "cache/record.h"
#include "cache/records/devices.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "cache/store.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::store_search_test {

using test::config_of;
using test::key_of;
using test::kNow;
using test::open_store;
using test::store_winner;
using test::tamper;
using test::timed;
using testing::HasSubstr;

/// Another value than the one it has.
struct ChangeOne {
  int index;
  int seen = 0;
  std::string name = {};
  template <typename T>
  void operator()(std::string_view field_name, T& field) {
    if (seen++ != index) return;
    name = field_name;
    if constexpr (std::is_same_v<T, bool>)
      field = !field;
    else
      field += 1;
  }
};

const SearchExtent kSearched{.seconds = 3.5,
                             .budget_seconds = 10,
                             .spent_seconds = 3.25,
                             .measured = 16,
                             .failed = 2,
                             .enumerated = 14715,
                             .interrupted = true};

TEST(StoreSearch, EveryFieldOfASearchsExtentComesBack) {
  auto store = open_store({});
  const BestKey key = key_of(64, 96, 128);
  store_winner(*store, key, 6);
  EXPECT_FALSE(store->winners().best(key, kNow)->searched) << "nobody said anything of it";
  int i = 0;
  for (;; ++i) {
    SearchExtent searched = kSearched;
    ChangeOne one{i};
    for_each_search_field(searched, one);
    if (one.name.empty()) break;
    ASSERT_NE(searched, kSearched) << one.name;
    ASSERT_TRUE(store->measurements().put_search(key, kNow, searched)) << one.name;
    const auto record = store->winners().best(key, kNow);
    ASSERT_TRUE(record->searched) << one.name;
    EXPECT_EQ(*record->searched, searched) << one.name;
    const auto listed = store->winners().list().value();
    ASSERT_EQ(listed.size(), 1u);
    EXPECT_EQ(listed[0].searched, record->searched) << one.name;
  }
  EXPECT_EQ(i, 8);
}

TEST(StoreSearch, ASearchsExtentIsOfItsKeyAndToolchain) {
  auto store = open_store({});
  const BestKey key = key_of(64, 96, 128), other = key_of(64, 96, 129);
  for (const BestKey& each : {key, other}) store_winner(*store, each, 6);
  ASSERT_TRUE(store->measurements().put_search(key, kNow, kSearched));
  EXPECT_FALSE(store->winners().best(other, kNow)->searched);
  Validators later = kNow;
  later.compiler = "clang 23";
  ASSERT_TRUE(store->measurements().put(key, later, timed(7, 800)));
  ASSERT_TRUE(store->winners().make_winner(key, later, config_of(7)));
  EXPECT_FALSE(store->winners().best(key, later)->searched);
  EXPECT_EQ(store->winners().best(key, kNow)->searched, kSearched);
}

// A negative time would make a search of years; counts beyond the space would print as nonsense.
TEST(StoreSearch, AnExtentThatCannotBeIsNoneAndIsRepaired) {
  for (const char* change :
       {"spent_seconds = -1e9", "spent_seconds = 11", "seconds = -1", "measured = 14714",
        "failed = -1", "interrupted = 2", "enumerated = 5"}) {
    TempDir dir;
    const BestKey key = key_of(64, 96, 128);
    {
      auto store = open_store(dir / "kiln.db");
      store_winner(*store, key, 6);
      ASSERT_TRUE(store->measurements().put_search(key, kNow, kSearched));
    }
    tamper(dir / "kiln.db", fmt::format("UPDATE search SET {}", change));
    auto store = open_store(dir / "kiln.db");
    ASSERT_TRUE(store->winners().best(key, kNow)) << change;
    EXPECT_FALSE(store->winners().best(key, kNow)->searched) << change;
    const auto found = store->maintenance().check(true).value();
    ASSERT_EQ(found.problems.size(), 1u) << change;
    EXPECT_THAT(found.problems[0], HasSubstr("search row 1"));
    EXPECT_TRUE(store->maintenance().check(false)->ok()) << change;
    EXPECT_TRUE(store->winners().best(key, kNow)) << change;
  }
}

TEST(StoreSearch, AnExportMayLeaveOutSlowCandidates) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128), other = key_of(8, 8, 8);
  auto store = open_store(dir / "kiln.db");
  store_winner(*store, key, 6);
  store_winner(*store, other, 40);
  for (const int mr : {10, 11, 12, 13, 40}) {
    Measured screened = timed(mr, 1000 + mr);
    screened.round = mr == 13 ? Round::race : Round::screen;
    ASSERT_TRUE(store->measurements().put(key, kNow, screened));
  }
  Measured refused = test::failed(20, Failure::Kind::compile);
  ASSERT_TRUE(store->measurements().put(key, kNow, refused));
  ASSERT_TRUE(store->transfer().export_to(dir / "app.kiln", 2));
  std::set<std::string> kept;
  for (const Measured& row : open_store({}, {dir / "app.kiln"})->measurements().known(key, kNow))
    kept.insert(text(row.config));
  // The winner and the fastest other, the one of a race, and the winner of another problem.
  EXPECT_EQ(kept, (std::set{text(config_of(6)), text(config_of(10)), text(config_of(13)),
                            text(config_of(40))}));
  EXPECT_TRUE(open_store({}, {dir / "app.kiln"})->maintenance().check(false)->ok());
  EXPECT_EQ(store->measurements().known(key, kNow).size(), 8u) << "the store itself stays as it is";
}

TEST(StoreSearch, WinnersAndTheirConfigsLieFirstInAnExport) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128), other = key_of(8, 8, 8);
  auto store = open_store(dir / "kiln.db");
  for (const int mr : {10, 11, 12, 13})
    ASSERT_TRUE(store->measurements().put(key, kNow, timed(mr, 1000 + mr)));
  for (const BestKey& each : {other, key}) store_winner(*store, each, 6);
  ASSERT_TRUE(store->transfer().export_to(dir / "app.kiln"));
  SQLite::Database file((dir / "app.kiln").string());
  EXPECT_EQ(file.execAndGet("SELECT group_concat(id) FROM measurement WHERE winner").getString(),
            "1,2");
  EXPECT_EQ(file.execAndGet("SELECT max(config_id) FROM measurement WHERE winner").getInt(), 1);
  auto app = open_store({}, {dir / "app.kiln"});
  EXPECT_TRUE(app->maintenance().check(false)->ok());
  for (const BestKey& each : {key, other}) {
    EXPECT_EQ(app->winners().best(each, kNow)->measured.config, config_of(6));
    const auto configs = [&](Store& of) {
      std::multiset<std::string> texts;
      for (const Measured& row : of.measurements().known(each, kNow))
        texts.insert(text(row.config));
      return texts;
    };
    EXPECT_EQ(configs(*app), configs(*store));
  }
}

TEST(StoreSearch, ImportTakesTheExtentWithTheWinner) {
  TempDir dir;
  const BestKey theirs = key_of(64, 96, 128), both = key_of(8, 8, 8), unfinished = key_of(9, 9, 9);
  const BestKey old_here = key_of(10, 10, 10);
  SearchExtent long_one = kSearched;
  long_one.budget_seconds = long_one.spent_seconds = 60;
  {
    auto store = open_store(dir / "other.db");
    for (const BestKey& key : {theirs, both, unfinished, old_here}) {
      store_winner(*store, key, 6);
      ASSERT_TRUE(store->measurements().put_search(key, kNow, long_one));
    }
    ASSERT_TRUE(store->transfer().export_to(dir / "app.kiln"));
  }
  auto store = open_store(dir / "kiln.db");
  store_winner(*store, both, 8);
  ASSERT_TRUE(store->measurements().put_search(both, kNow, kSearched));
  ASSERT_TRUE(store->measurements().put(unfinished, kNow, timed(9, 700)));
  ASSERT_TRUE(store->measurements().put_search(unfinished, kNow, kSearched));
  store_winner(*store, old_here, 8);
  ASSERT_TRUE(store->transfer().import_from(dir / "app.kiln"));
  EXPECT_EQ(store->winners().best(theirs, kNow)->searched, long_one);
  EXPECT_EQ(store->winners().best(unfinished, kNow)->searched, long_one)
      << "their winner, their search";
  EXPECT_EQ(store->winners().best(both, kNow)->searched, kSearched)
      << "the winner here was found in 3 s";
  EXPECT_FALSE(store->winners().best(old_here, kNow)->searched)
      << "their minute did not find this winner";
}

TEST(StoredPeak, IsTheLargestOfADevicesThreadsAndType) {
  TempDir dir;
  DeviceCaps two = key_of(1, 1, 1).device;
  two.compute_units = 2;
  DeviceCaps one = two;
  one.compute_units = 1;
  {
    auto store = open_store(dir / "kiln.db");
    EXPECT_EQ(store->devices().peak(two, fp32), 0);
    for (const double flops : {3e11, 4e11, 2e11})
      ASSERT_TRUE(store->devices().raise_peak(two, fp32, flops));
    ASSERT_TRUE(store->devices().raise_peak(one, fp32, 1e11));
  }
  auto store = open_store(dir / "kiln.db");
  EXPECT_EQ(store->devices().peak(two, fp32), 4e11);
  EXPECT_EQ(store->devices().peak(one, fp32), 1e11);
  EXPECT_EQ(store->devices().peak(two, fp64), 0);
  for (const double none : {0.0, -1.0, 1e300, std::nan("")})
    EXPECT_FALSE(store->devices().raise_peak(two, fp32, none)) << none;
  EXPECT_EQ(store->devices().peak(two, fp32), 4e11);
}

TEST(StoredPeak, TheLargerOfTwoFilesCounts) {
  TempDir dir;
  const DeviceCaps device = key_of(1, 1, 1).device;
  {
    auto other = open_store(dir / "other.db");
    ASSERT_TRUE(other->devices().raise_peak(device, fp32, 4e11));
    ASSERT_TRUE(other->devices().raise_peak(device, fp64, 1e11));
    ASSERT_TRUE(other->transfer().export_to(dir / "app.kiln"));
  }
  auto beside = open_store(dir / "beside.db", {dir / "app.kiln"});
  ASSERT_TRUE(beside->devices().raise_peak(device, fp32, 3e11));
  EXPECT_EQ(beside->devices().peak(device, fp32), 4e11) << "a shipped one counts";
  ASSERT_TRUE(beside->devices().raise_peak(device, fp64, 2e11));
  ASSERT_TRUE(beside->transfer().import_from(dir / "app.kiln"));
  beside = open_store(dir / "beside.db");
  EXPECT_EQ(beside->devices().peak(device, fp32), 4e11);
  EXPECT_EQ(beside->devices().peak(device, fp64), 2e11) << "the larger was here";
}

TEST(StoredPeak, OneThatCannotBeIsNoneAndIsRepaired) {
  for (const char* change : {"flops = -1.0", "flops = 1e300", "dtype = 'fp31'"}) {
    TempDir dir;
    const DeviceCaps device = key_of(1, 1, 1).device;
    ASSERT_TRUE(open_store(dir / "kiln.db")->devices().raise_peak(device, fp32, 4e11));
    tamper(dir / "kiln.db", fmt::format("UPDATE peak SET {}", change));
    auto store = open_store(dir / "kiln.db");
    EXPECT_EQ(store->devices().peak(device, fp32), 0) << change;
    EXPECT_EQ(store->maintenance().check(true)->problems.size(), 1u) << change;
    EXPECT_TRUE(store->maintenance().check(false)->ok()) << change;
  }
}

}  // namespace kiln::store_search_test
