// What a database's tables, indexes, views and triggers must be: word for word what kiln writes.
#include "cache/layers/file_schema.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/layers/schema.h"
#include "cache/records/winners.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::file_schema_test {

using testing::HasSubstr;

SQLite::Database migrated(std::size_t steps) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  EXPECT_TRUE(migrate(db, "m", migrations().first(steps)));
  return db;
}

TEST(FileSchema, TodaysIsWhatTheStepsMake) {
  SQLite::Database db = migrated(migrations().size());
  const FileSchema made = FileSchema::of(db);
  std::vector<std::string> texts;
  for (const SchemaObject& object : made.objects())
    texts.push_back(
        fmt::format("{} {} {}\n{}", object.type, object.name, object.table, object.sql));
  ASSERT_EQ(made.objects().size(), todays_schema().size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_TRUE(made.objects()[i] == todays_schema()[i])
        << "cache/layers/file_schema.cpp must have, after a new step:\n"
        << texts[i];
  EXPECT_EQ(first_difference(made.objects(), todays_schema()), "");
}

TEST(FileSchema, ThatOfEveryOlderVersionIsKnown) {
  for (std::size_t steps = 1; steps <= migrations().size(); ++steps) {
    SQLite::Database db = migrated(steps);
    EXPECT_EQ(*read_version(db, "m"), migrations()[steps - 1].version);
  }
}

TEST(FileSchema, AnythingElseIsRefusedByName) {
  const std::string lie = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET ";
  const std::pair<std::string, std::string> hostile[] = {
      {"CREATE VIEW more AS SELECT * FROM device", "view more is not kiln's"},
      {"CREATE TRIGGER sqlitex_more AFTER INSERT ON device BEGIN DELETE FROM device; END",
       "trigger sqlitex_more is not kiln's"},
      {"CREATE TRIGGER more AFTER INSERT ON device BEGIN DELETE FROM device; END; " + lie +
           "type = 'table', name = 'sqlite_stat1', tbl_name = 'sqlite_stat1' WHERE name = 'more'",
       "sqlite_stat1"},
      {"CREATE TABLE more (x)", "table more is not kiln's"},
      {"CREATE VIRTUAL TABLE more USING fts5(x)", "more"},
      {"CREATE INDEX more ON problem(printf('%1000d', m))", "index more is not kiln's"},
      {"ALTER TABLE device ADD COLUMN more INTEGER AS (length(zeroblob(1000000000))) VIRTUAL",
       "table device is not kiln's"},
      {"DROP TABLE verification", "verification"},
      {"DROP INDEX problem_class", "index problem_class is missing"},
      {lie + "sql = replace(sql, ' STRICT', '') WHERE name = 'config'",
       "table config is not kiln's"},
  };
  for (const auto& [sql, reason] : hostile) {
    TempDir dir;
    test::store_winner(*test::open_store(dir / "kiln.db"), test::key_of(64, 96, 128), 6);
    try {
      test::tamper(dir / "kiln.db", sql);
    } catch (const SQLite::Exception&) {
      continue;  // this SQLite has no such module
    }
    for (const bool shipped : {false, true}) {
      const auto opened = shipped
                              ? Store::open({.database = ":memory:", .shipped = {dir / "kiln.db"}})
                              : Store::open({.database = dir / "kiln.db"});
      if (shipped && opened) continue;  // a shipped file that cannot be read is left out
      ASSERT_FALSE(opened) << sql;
      EXPECT_EQ(opened.error().code, ErrorCode::database);
      EXPECT_THAT(opened.error().message, HasSubstr(reason)) << sql;
    }
  }
}

TEST(FileSchema, StatisticsOfAnalyzeAreNoCode) {
  TempDir dir;
  const BestKey key = test::key_of(64, 96, 128);
  test::store_winner(*test::open_store(dir / "kiln.db"), key, 6);
  test::tamper(dir / "kiln.db", "ANALYZE");
  EXPECT_TRUE(test::open_store(dir / "kiln.db")->winners().best(key, test::kNow));
}

TEST(FileSchema, WorkThatNeverEndsIsInterrupted) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  std::int64_t left = 1'000'000;
  bound_work(db, left);
  EXPECT_EQ(db.execAndGet("SELECT 1").getInt(), 1);
  EXPECT_THROW(db.execAndGet("WITH RECURSIVE t(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM t) "
                             "SELECT count(*) FROM t"),
               SQLite::Exception);
}

}  // namespace kiln::file_schema_test
