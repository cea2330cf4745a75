// docs/database.md is true: it names every table and column, and each of its queries finds rows.
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cache/layers/schema.h"
#include "cache/records/binaries.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "generator/families/cpu/library/config.h"
#include "support/fenced.h"
#include "support/paths.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::database_docs_test {

using test::key_of;
using test::kNow;
using testing::HasSubstr;
using testing::SizeIs;

std::string document() {
  std::ostringstream text;
  text << std::ifstream(test::source_dir() + "/docs/database.md").rdbuf();
  return text.str();
}

std::vector<std::string> queries() {
  std::vector<std::string> found;
  for (const test::Fenced& block : test::fenced_blocks(test::source_dir() + "/docs/database.md"))
    if (block.language == "sql") found.push_back(block.text);
  return found;
}

/// A file with a row for each question: as `kiln tune` leaves them, under two runtimes.
void fill_database(const std::filesystem::path& file) {
  auto store = test::open_store(file);
  ASSERT_TRUE(store->begin_session({.command = "kiln tune", .seed = 1, .budget_seconds = 4}));
  for (const char* runtime : {"driver 12.4", "driver 12.8"}) {
    Validators made_by = kNow;
    made_by.runtime = runtime;
    const BestKey key = key_of(64, 96, 128);
    ASSERT_TRUE(store->measurements().put(key, made_by, test::timed(6, 1000)));
    ASSERT_TRUE(store->measurements().put(key, made_by, test::timed(8, 1500)));
    ASSERT_TRUE(
        store->measurements().put(key, made_by, test::failed(9, Failure::Kind::wrong_result)));
    Measured library = test::timed(1, 1200);
    library.config = BlasLibrary{};
    library.binary_key.clear();
    ASSERT_TRUE(store->measurements().put(key, made_by, library));
    for (const int mr : {6, 8}) ASSERT_TRUE(store->binaries().put(test::code_of(mr)));
    ASSERT_TRUE(store->winners().make_winner(key, made_by, test::config_of(6)));
    ASSERT_TRUE(store->measurements().put_search(
        key, made_by,
        {.seconds = 1, .budget_seconds = 4, .spent_seconds = 1, .measured = 3, .enumerated = 90}));
  }
  BestKey thin = key_of(1, 2, 3);
  Measured screened = test::timed(6, 50);
  screened.round = Round::screen;
  ASSERT_TRUE(store->measurements().put(thin, kNow, screened));
  ASSERT_TRUE(store->winners().make_winner(thin, kNow, screened.config));
}

TEST(DatabaseDocs, EveryQueryFindsRows) {
  const TempDir dir;
  fill_database(dir / "kiln.db");
  SQLite::Database db((dir / "kiln.db").string(), SQLite::OPEN_READONLY);
  const auto all = queries();
  EXPECT_THAT(all, SizeIs(10));
  for (const std::string& query : all) {
    SQLite::Statement row(db, query);
    int rows = 0;
    while (row.executeStep()) ++rows;
    EXPECT_GT(rows, 0) << query;
  }
}

TEST(DatabaseDocs, EveryTableAndColumnIsNamed) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  ASSERT_TRUE(migrate(db, "m"));
  const std::string text = document();
  EXPECT_THAT(text, HasSubstr("schema version " + std::to_string(schema_version()) + " "));
  SQLite::Statement row(db, R"sql(
    SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
    WHERE t.type = 'table' AND c.name <> 'id')sql");
  int columns = 0;
  while (row.executeStep()) {
    ++columns;
    const std::string table = row.getColumn(0).getString();
    const auto begin = text.find("**" + table + "**");
    ASSERT_NE(begin, std::string::npos) << table;
    const std::string part = text.substr(begin, text.find("\n**", begin + 2) - begin);
    EXPECT_THAT(part, HasSubstr("`" + row.getColumn(1).getString() + "`")) << "of " << table;
  }
  EXPECT_GT(columns, 100);
}

}  // namespace kiln::database_docs_test
