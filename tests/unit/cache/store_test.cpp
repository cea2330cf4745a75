// Rows of the database: what goes in comes out, and nothing bad in the file comes further than the
// log.
#include "cache/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/exchange/transfer.h"
#include "cache/keys.h"
#include "cache/record.h"
#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::store_test {

using test::code_of;
using test::config_of;
using test::failed;
using test::key_of;
using test::kNow;
using test::open_store;
using test::store_winner;
using test::tamper;
using test::timed;
using testing::HasSubstr;

TEST(Store, AWinnerComesBackWithEverything) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  store_winner(*open_store(dir / "kiln.db"), key, 6);
  const auto record = open_store(dir / "kiln.db")->winners().best(key, kNow);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->key, key);
  EXPECT_EQ(record->validators, kNow);
  EXPECT_EQ(record->measured.config, config_of(6));
  EXPECT_EQ(record->measured.timing(), timed(6, 1000).timing());
  EXPECT_EQ(record->measured.predicted_ns, 900);
  EXPECT_EQ(record->measured.round, Round::race);
  EXPECT_TRUE(record->measured.verified);
  EXPECT_EQ(record->image, code_of(6).image);
  EXPECT_EQ(record->source, code_of(6).source);
  EXPECT_EQ(record->database, dir / "kiln.db");
  EXPECT_THAT(record->created, testing::MatchesRegex("....-..-..T..:..:..Z"));
}

TEST(Store, FailuresAreEvidenceToo) {
  auto store = open_store({});
  const BestKey key = key_of(64, 96, 128);
  store_winner(*store, key, 6);
  const auto rows = store->measurements().known(key, kNow);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].ok());
  ASSERT_FALSE(rows[1].ok());
  EXPECT_EQ(rows[1].failure(), (Failure{Failure::Kind::wrong_result, "why it failed"}));
}

TEST(Store, EveryKindOfFailureAndRoundComesBack) {
  auto store = open_store({});
  const BestKey key = key_of(8, 8, 8);
  constexpr int kKinds = EnumNames<Failure::Kind>::names.size();
  for (int i = 0; i < kKinds; ++i) {
    EXPECT_EQ(name(static_cast<Failure::Kind>(i)), EnumNames<Failure::Kind>::names[i]);
    ASSERT_TRUE(store->measurements().put(key, kNow, failed(i + 1, static_cast<Failure::Kind>(i))));
  }
  const auto rows = store->measurements().known(key, kNow);
  ASSERT_EQ(rows.size(), std::size_t{kKinds});
  for (int i = 0; i < kKinds; ++i) EXPECT_EQ(rows[i].failure().kind, static_cast<Failure::Kind>(i));
}

TEST(Store, OtherKeysAndCompilersMiss) {
  auto store = open_store({});
  const BestKey key = key_of(64, 96, 128);
  store_winner(*store, key, 6);
  EXPECT_FALSE(store->winners().best(key_of(64, 96, 129), kNow));
  for (auto change :
       {+[](BestKey& k) { k.device.compute_units += 1; }, +[](BestKey& k) { k.policy = "hot"; },
        +[](BestKey& k) { k.determinism = Determinism::any; },
        +[](BestKey& k) { k.gemm.alignment = 64; }}) {
    BestKey other = key;
    change(other);
    EXPECT_FALSE(store->winners().best(other, kNow));
  }
  Validators other = kNow;
  other.compiler = "clang 23";
  EXPECT_FALSE(store->winners().best(key, other));
  EXPECT_TRUE(store->measurements().known(key, other).empty());
  Validators no_compiler = kNow;
  no_compiler.compiler.clear();
  EXPECT_TRUE(store->winners().best(key, no_compiler));
}

TEST(Store, AWinnerOfOlderTemplatesStaysOne) {
  auto store = open_store({});
  const BestKey key = key_of(64, 96, 128);
  store_winner(*store, key, 6);
  Validators later = kNow;
  later.template_hash = "t2";
  const auto record = store->winners().best(key, later);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->image, code_of(6).image);
  EXPECT_EQ(record->validators.template_hash, "t1");
  EXPECT_TRUE(store->measurements().known(key, later).empty())
      << "timings of losers that may render otherwise";
  // What today's templates made comes first, however old it is.
  ASSERT_TRUE(store->measurements().put(key, later, timed(8, 2000)));
  ASSERT_TRUE(store->winners().make_winner(key, later, config_of(8)));
  EXPECT_EQ(store->winners().best(key, later)->measured.config, config_of(8));
  EXPECT_EQ(store->winners().best(key, kNow)->measured.config, config_of(6));
}

TEST(Store, AnotherRuntimeIsUsableAndRemembersThatItPassed) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  auto store = open_store(dir / "kiln.db");
  store_winner(*store, key, 6);
  Validators later = kNow;
  later.runtime = "r2";
  const auto record = store->winners().best(key, later);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->validators.runtime, "r1");
  ASSERT_TRUE(store->proofs().proved(record->measured.binary_key, key, config_of(6), "r2"));
  EXPECT_EQ(open_store(dir / "kiln.db")->winners().best(key, later)->validators.runtime, "r2");
  later.runtime = "r3";
  EXPECT_EQ(store->winners().best(key, later)->validators.runtime, "r1");
}

TEST(Store, ANewWinnerTakesOver) {
  auto store = open_store({});
  const BestKey key = key_of(64, 96, 128);
  store_winner(*store, key, 6);
  store_winner(*store, key, 8, 800);
  EXPECT_EQ(store->winners().best(key, kNow)->measured.config, config_of(8));
  EXPECT_EQ(store->winners().list()->size(), 1u);
  const Status none =
      store->winners().make_winner(key, kNow, config_of(9));  // its row is a failure
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("mr=9"));
  EXPECT_EQ(store->winners().best(key, kNow)->measured.config, config_of(8));
}

TEST(Store, NeighboursAreOfOneClassAndDevice) {
  auto store = open_store({});
  store_winner(*store, key_of(64, 96, 128), 6);
  store_winner(*store, key_of(640, 96, 128), 8);
  BestKey transposed = key_of(64, 96, 128);
  transposed.gemm = transposed.gemm.transpose_b();
  store_winner(*store, transposed, 4);
  BestKey elsewhere = key_of(64, 64, 64);
  elsewhere.device.model = "another";
  store_winner(*store, elsewhere, 5);
  const auto near = store->winners().tuned_like(key_of(1, 1, 1), kNow);
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(near[0].key.gemm, key_of(64, 96, 128).gemm);
  EXPECT_EQ(near[1].key.gemm, key_of(640, 96, 128).gemm);
  EXPECT_EQ(near[1].measured.config, config_of(8));
}

TEST(Store, BinariesAreFoundBySource) {
  auto store = open_store({});
  ASSERT_TRUE(store->binaries().put(code_of(3)));
  EXPECT_EQ(store->binaries().of_source("source3", "")->image, code_of(3).image);
  EXPECT_EQ(store->binaries().of_source("source3", "clang 22")->key, "binary3");
  EXPECT_FALSE(store->binaries().of_source("source3", "clang 23"));
  EXPECT_FALSE(store->binaries().of_source("source4", ""));
  store->binaries().quarantine("binary3", "it would not load");
  EXPECT_FALSE(store->binaries().of_source("source3", ""));
  ASSERT_TRUE(store->binaries().put(code_of(3)));  // compiled again
}

TEST(Store, TheUsersExactKeyWinsOverShippedOnes) {
  TempDir dir;
  const BestKey both = key_of(64, 96, 128), only_shipped = key_of(1, 2, 3);
  {
    auto shipped = open_store(dir / "shipped.db");
    store_winner(*shipped, both, 6);
    store_winner(*shipped, only_shipped, 6);
    ASSERT_TRUE(shipped->transfer().export_to(dir / "release.db"));
    store_winner(*open_store(dir / "own.db"), both, 8);
  }
  auto store = open_store(dir / "own.db", {dir / "release.db"});
  EXPECT_EQ(store->winners().best(both, kNow)->measured.config, config_of(8));
  const auto record = store->winners().best(only_shipped, kNow);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->image, code_of(6).image);
  EXPECT_EQ(record->database, dir / "release.db");
  EXPECT_EQ(store->maintenance().stats()->size(), 2u);
  EXPECT_FALSE(store->maintenance().stats()->at(1).writable);
}

TEST(Store, DamagedCodeIsQuarantinedAndTheConfigStays) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  auto store = open_store(dir / "kiln.db");
  store_winner(*store, key, 6);
  tamper(dir / "kiln.db", "UPDATE binary_data SET data = zeroblob(100)");
  const auto record = store->winners().best(key, kNow);
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->image.empty());
  EXPECT_EQ(record->measured.config, config_of(6));
  EXPECT_EQ(store->maintenance().stats()->front().quarantined, 1);
  ASSERT_TRUE(store->binaries().put(code_of(6)));
  EXPECT_EQ(store->winners().best(key, kNow)->image, code_of(6).image);
}

TEST(Store, HostileRowsAreMisses) {
  const std::string hostile[] = {
      "UPDATE config SET text = 'host_packed mr=-1000000000000' WHERE id = (SELECT config_id FROM "
      "measurement WHERE winner)",
      "UPDATE config SET text = '' WHERE id = (SELECT config_id FROM measurement WHERE winner)",
      "UPDATE config SET text = 'rm -rf' WHERE id = (SELECT config_id FROM measurement WHERE "
      "winner)",
      "UPDATE measurement SET median_ns = -5 WHERE winner = 1",
      "UPDATE measurement SET round = 'final' WHERE winner = 1",
      "UPDATE measurement SET config_id = 99 WHERE winner = 1",
      "DELETE FROM toolchain",
  };
  for (const std::string& sql : hostile) {
    TempDir dir;
    const BestKey key = key_of(64, 96, 128);
    store_winner(*open_store(dir / "kiln.db"), key, 6);
    tamper(dir / "kiln.db", "PRAGMA foreign_keys = OFF; " + sql);
    auto store = open_store(dir / "kiln.db");
    EXPECT_FALSE(store->winners().best(key, kNow)) << sql;
    EXPECT_TRUE(store->winners().tuned_like(key, kNow).empty()) << sql;
  }
  const std::string bad_problems[] = {
      "UPDATE problem SET m = -1",
      "UPDATE problem SET a_dtype = 'fp31'",
      "UPDATE problem SET d_ld = 1",
      "UPDATE problem SET b_packed = 7",
      "UPDATE problem SET alignment = 1099511627776",
  };
  for (const std::string& sql : bad_problems) {
    TempDir dir;
    store_winner(*open_store(dir / "kiln.db"), key_of(64, 96, 128), 6);
    tamper(dir / "kiln.db", sql);
    auto store = open_store(dir / "kiln.db");
    EXPECT_TRUE(store->winners().tuned_like(key_of(1, 1, 1), kNow).empty()) << sql;
    EXPECT_TRUE(store->winners().list()->empty()) << sql;
    EXPECT_FALSE(store->maintenance().check(false)->ok()) << sql;
  }
}

TEST(Store, CheckFindsAndRepairs) {
  TempDir dir;
  auto store = open_store(dir / "kiln.db");
  store_winner(*store, key_of(64, 96, 128), 6);
  store_winner(*store, key_of(32, 32, 32), 8);
  EXPECT_TRUE(store->maintenance().check(false)->ok());
  EXPECT_GT(store->maintenance().check(false)->rows, 6);
  tamper(dir / "kiln.db",
         "UPDATE binary SET hash = 'x' WHERE key = 'binary6';"
         "UPDATE config SET text = 'nonsense' WHERE text LIKE '%mr=8%'");
  const auto found = store->maintenance().check(false);
  ASSERT_EQ(found->problems.size(), 2u) << testing::PrintToString(found->problems);
  EXPECT_THAT(found->problems[0], HasSubstr("binary row"));
  EXPECT_THAT(found->problems[1], HasSubstr("nonsense"));
  EXPECT_EQ(found->repaired, 0);
  EXPECT_EQ(store->maintenance().check(true)->repaired, 2);
  EXPECT_TRUE(store->maintenance().check(false)->ok());
  EXPECT_TRUE(store->winners().best(key_of(64, 96, 128), kNow));
  EXPECT_FALSE(store->winners().best(key_of(32, 32, 32), kNow));
}

TEST(Store, ExportIsOneFileThatAnotherMachineCanOnlyRead) {
  TempDir dir;
  {
    auto store = open_store(dir / "kiln.db");
    store_winner(*store, key_of(64, 96, 128), 6);
    ASSERT_TRUE(store->transfer().export_to(dir / "out.db"));
  }
  for (const char* suffix : {"-wal", "-shm", "-journal"})
    EXPECT_FALSE(std::filesystem::exists((dir / "out.db").string() + suffix));
  auto reader = open_store({}, {dir / "out.db"});
  EXPECT_EQ(reader->winners().best(key_of(64, 96, 128), kNow)->image, code_of(6).image);
  EXPECT_EQ(reader->maintenance().stats()->at(1).journal, "delete");
  const Status nowhere = reader->transfer().export_to(dir / "no/such/folder.db");
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("no/such/folder.db"));
}

// The log that lies beside it would be replayed over the new file.
TEST(Store, ExportTakesNoPlaceOfADatabaseInUse) {
  TempDir dir;
  auto store = open_store(dir / "kiln.db");
  store_winner(*store, key_of(64, 96, 128), 6);
  const Status itself = store->transfer().export_to(dir / "kiln.db");
  ASSERT_FALSE(itself);
  EXPECT_THAT(itself.error().message, HasSubstr("the database itself"));
  auto other = open_store(dir / "other.db");
  store_winner(*other, key_of(1, 2, 3), 6);
  const Status in_use = store->transfer().export_to(dir / "other.db");
  ASSERT_FALSE(in_use);
  EXPECT_THAT(in_use.error().message, HasSubstr("other.db-wal"));
  EXPECT_TRUE(other->winners().best(key_of(1, 2, 3), kNow));
}

TEST(Store, ExportTakesTheShippedLayersAlong) {
  TempDir dir;
  {
    auto shipped = open_store(dir / "shipped.db");
    store_winner(*shipped, key_of(1, 2, 3), 6);
    store_winner(*shipped, key_of(4, 5, 6), 6);
    auto own = open_store(dir / "own.db");
    store_winner(*own, key_of(4, 5, 6), 8);
    ASSERT_TRUE(shipped->transfer().export_to(dir / "release.db"));
    ASSERT_TRUE(
        open_store(dir / "own.db", {dir / "release.db"})->transfer().export_to(dir / "all.db"));
  }
  auto all = open_store(dir / "all.db");
  EXPECT_EQ(all->winners().list()->size(), 2u);
  EXPECT_EQ(all->winners().best(key_of(1, 2, 3), kNow)->image, code_of(6).image);
  EXPECT_EQ(all->winners().best(key_of(4, 5, 6), kNow)->measured.config, config_of(8));
}

TEST(Store, ImportMergesAndTheRowsHereWin) {
  TempDir dir;
  {
    auto theirs = open_store(dir / "theirs.db");
    store_winner(*theirs, key_of(1, 2, 3), 6);
    store_winner(*theirs, key_of(4, 5, 6), 6, 10);
    ASSERT_TRUE(theirs->transfer().export_to(dir / "it's theirs.db"));
  }
  auto own = open_store(dir / "own.db");
  store_winner(*own, key_of(4, 5, 6), 8);
  const auto report = own->transfer().import_from(dir / "it's theirs.db");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->trusted);
  EXPECT_EQ(report->binaries, 1);
  EXPECT_EQ(report->measurements, 4);
  EXPECT_EQ(own->winners().best(key_of(1, 2, 3), kNow)->image, code_of(6).image);
  EXPECT_EQ(own->winners().best(key_of(4, 5, 6), kNow)->measured.config, config_of(8));
  EXPECT_EQ(own->measurements().known(key_of(4, 5, 6), kNow).size(), 4u);
  const auto again = own->transfer().import_from(dir / "it's theirs.db");
  EXPECT_EQ(again->measurements + again->binaries, 0);
  EXPECT_TRUE(own->maintenance().check(false)->ok());
}

TEST(Store, ImportMakesWinnersOfAnUnfinishedSearchsRows) {
  TempDir dir;
  {
    auto theirs = open_store(dir / "theirs.db");
    store_winner(*theirs, key_of(1, 2, 3), 6);
    ASSERT_TRUE(theirs->transfer().export_to(dir / "out.db"));
  }
  auto own = open_store(dir / "own.db");
  ASSERT_TRUE(own->measurements().put(key_of(1, 2, 3), kNow, timed(6, 1200)));
  ASSERT_FALSE(own->winners().best(key_of(1, 2, 3), kNow));
  ASSERT_TRUE(own->transfer().import_from(dir / "out.db"));
  ASSERT_TRUE(own->winners().best(key_of(1, 2, 3), kNow));
  EXPECT_EQ(own->winners().best(key_of(1, 2, 3), kNow)->image, code_of(6).image);
}

TEST(Store, ADamagedSourceIsMendedWhenTheCodeIsMadeAgain) {
  TempDir dir;
  auto store = open_store(dir / "kiln.db");
  store_winner(*store, key_of(64, 96, 128), 6);
  tamper(dir / "kiln.db", "UPDATE source SET data = x'00'");
  EXPECT_TRUE(store->winners().best(key_of(64, 96, 128), kNow)->image.empty());
  StoredBinary again = code_of(6);
  again.key = "binary6 of another build";
  again.compiler = "clang 23";
  ASSERT_TRUE(store->binaries().put(again));
  const auto found = store->binaries().of_source("source6", "clang 23");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->source, again.source);
}

TEST(Store, ImportNamesAFileThatIsNot) {
  auto store = open_store({});
  const auto report = store->transfer().import_from("/no/such/file.db");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::bad_input);
  EXPECT_THAT(report.error().message, HasSubstr("/no/such/file.db"));
}

}  // namespace kiln::store_test
