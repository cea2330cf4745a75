// What a call took of a device under load, in files of today and of before it was stored.
#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/exchange/merge.h"
#include "cache/exchange/transfer.h"
#include "cache/records/maintenance.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::stored_load_test {

using test::key_of;
using test::kNow;
using test::open_store;
using testing::AllOf;
using testing::Field;
using testing::HasSubstr;

const BestKey kKey = key_of(64, 96, 128);

Measured loaded(int mr, double ns, double joules) {
  Measured measured = test::timed(mr, ns);
  measured.outcome = Timing{
      .median_ns = ns, .low_ns = ns, .high_ns = ns, .samples = 5, .joules = joules, .sm_mhz = 1500};
  return measured;
}

void store(Store& store, const Measured& measured) {
  const int mr = measured.config.as<HostPacked>().mr;
  ASSERT_TRUE(store.binaries().put(test::code_of(mr)));
  ASSERT_TRUE(store.measurements().put(kKey, kNow, measured));
  ASSERT_TRUE(store.winners().make_winner(kKey, kNow, measured.config));
}

Timing winner_in(Store& store) {
  const auto record = store.winners().best(kKey, kNow);
  return record ? record->measured.timing() : Timing{};
}

const auto kLoaded = AllOf(Field(&Timing::joules, 0.25), Field(&Timing::sm_mhz, 1500));
const auto kUnknown =
    AllOf(Field(&Timing::median_ns, 2000), Field(&Timing::joules, 0), Field(&Timing::sm_mhz, 0));

TEST(StoredLoad, IsKeptWithTheTimeThatItIsOf) {
  const TempDir dir;
  {
    auto own = open_store(dir / "kiln.db");
    store(*own, loaded(6, 1000, 0.25));
    EXPECT_THAT(winner_in(*own), kLoaded);
  }
  EXPECT_THAT(winner_in(*open_store({}, {dir / "kiln.db"})), kLoaded);
  auto own = open_store(dir / "kiln.db");
  // A cool time in its place has none.
  store(*own, test::timed(6, 2000));
  EXPECT_THAT(winner_in(*own), kUnknown);
  EXPECT_EQ(SQLite::Database((dir / "kiln.db").string())
                .execAndGet("SELECT joules IS NULL AND sm_mhz IS NULL FROM measurement")
                .getInt(),
            1);
}

TEST(StoredLoad, GoesWhereItsRowGoes) {
  const TempDir dir;
  {
    auto own = open_store(dir / "kiln.db");
    store(*own, loaded(6, 1000, 0.25));
    ASSERT_TRUE(own->transfer().export_to(dir / "out.kiln"));
  }
  EXPECT_THAT(winner_in(*open_store({}, {dir / "out.kiln"})), kLoaded);
  auto other = open_store(dir / "other.db");
  ASSERT_TRUE(other->transfer().import_from(dir / "out.kiln"));
  EXPECT_THAT(winner_in(*other), kLoaded);
  {
    auto one = open_store(dir / "one.db");
    store(*one, test::timed(6, 2000));
  }
  ASSERT_TRUE(
      open_store(dir / "merged.db")->transfer().merge_from({dir / "one.db", dir / "kiln.db"}, {}));
  // Of two measurements of one candidate the one of more samples stands, as a whole.
  EXPECT_THAT(winner_in(*open_store(dir / "merged.db")), kUnknown);
  ASSERT_TRUE(open_store(dir / "alone.db")->transfer().merge_from({dir / "kiln.db"}, {}));
  EXPECT_THAT(winner_in(*open_store(dir / "alone.db")), kLoaded);
}

class OlderFile : public testing::Test {
 protected:
  OlderFile() {
    store(*open_store(file_), test::timed(6, 2000));
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
    test::drop_columns_since(db, 18);
    db.exec("PRAGMA journal_mode = DELETE; PRAGMA user_version = 18");
  }
  TempDir dir_;
  const std::filesystem::path file_ = dir_ / "old.kiln";
};

TEST_F(OlderFile, IsReadAsItIsAndImportedAndMerged) {
  auto reader = open_store(dir_ / "own.db", {file_});
  EXPECT_THAT(winner_in(*reader), kUnknown);
  EXPECT_TRUE(reader->maintenance().check(false)->ok());
  EXPECT_EQ(SQLite::Database(file_.string()).execAndGet("PRAGMA user_version").getInt(), 18);
  auto importer = open_store(dir_ / "importer.db");
  const auto imported = importer->transfer().import_from(file_);
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_THAT(winner_in(*importer), kUnknown);
  ASSERT_TRUE(reader->transfer().export_to(dir_ / "out.kiln")) << "takes rows of all layers";
  EXPECT_THAT(winner_in(*open_store({}, {dir_ / "out.kiln"})), kUnknown);
  ASSERT_TRUE(open_store(dir_ / "merged.db")->transfer().merge_from({file_}, {}));
  EXPECT_THAT(winner_in(*open_store(dir_ / "merged.db")), kUnknown);
}

TEST_F(OlderFile, GetsItsColumnsWhereItIsWritten) {
  auto own = open_store(file_);
  EXPECT_THAT(winner_in(*own), kUnknown);
  store(*own, loaded(6, 1000, 0.25));
  EXPECT_THAT(winner_in(*own), kLoaded);
}

TEST(StoredLoad, WhatNoBoardTellsIsDamage) {
  for (const char* value : {"joules = -1", "joules = 9e999", "sm_mhz = -5"}) {
    const TempDir dir;
    store(*open_store(dir / "kiln.db"), loaded(6, 1000, 0.25));
    test::tamper(dir / "kiln.db", std::string("UPDATE measurement SET ") + value);
    auto own = open_store(dir / "kiln.db");
    EXPECT_FALSE(own->winners().best(kKey, kNow)) << value;
    const auto report = own->maintenance().check(false);
    ASSERT_TRUE(report);
    ASSERT_FALSE(report->ok()) << value;
    EXPECT_THAT(report->problems.front(), HasSubstr("its timing cannot be read")) << value;
  }
}

}  // namespace kiln::stored_load_test
