// Small files that unpack to gigabytes: they are refused before anything is unpacked, and named.
#include "cache/records/unpacked.h"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/codec/codec.h"
#include "cache/exchange/transfer.h"
#include "cache/records/maintenance.h"
#include "cache/records/winners.h"
#include "support/paths.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::unpacked_test {

using test::key_of;
using test::open_store;
using test::store_winner;
using test::tamper;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Rows of `source` that nothing names, each of which says that it unpacks to 60 MiB.
std::string bombs(int count) {
  std::string sql;
  for (int i = 1; i <= count; ++i)
    sql += fmt::format(
        "INSERT INTO source (id, hash, bytes, data) VALUES ({}, 'h{}', 62914560, x'28b52ffd');",
        1000 + i, i);
  return sql;
}

TEST(Unpacked, AFileThatUnpacksToGigabytesIsNamedAndNotUnpacked) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  store_winner(*open_store(dir / "kiln.db"), key, 6);
  tamper(dir / "kiln.db", bombs(300));
  const auto store = open_store(dir / "kiln.db");
  const auto report = store->maintenance().check(false);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->problems, SizeIs(300));
  EXPECT_THAT(report->problems.front(),
              AllOf(HasSubstr("source row 1"), HasSubstr("4 bytes that unpack to 62914560")));
  const auto expect_refusal = [](const auto& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::database);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("kiln.db"), HasSubstr("source row"), HasSubstr("check --repair")));
  };
  expect_refusal(store->transfer().export_to(dir / "out.kiln"));
  expect_refusal(store->maintenance().compact());
  EXPECT_FALSE(std::filesystem::exists(dir / "out.kiln"));
  EXPECT_EQ(store->maintenance().check(true)->repaired, 300);
  EXPECT_TRUE(store->maintenance().check(false)->ok());
  EXPECT_TRUE(store->winners().best(key, test::kNow));
  EXPECT_TRUE(store->transfer().export_to(dir / "out.kiln"));
}

TEST(Unpacked, CodeOfSuchASourceGoesWithIt) {
  TempDir dir;
  store_winner(*open_store(dir / "kiln.db"), key_of(64, 96, 128), 6);
  store_winner(*open_store(dir / "kiln.db"), key_of(32, 32, 32), 8);
  tamper(dir / "kiln.db", bombs(3) + "UPDATE binary SET source_id = 1003 WHERE key = 'binary6'");
  const auto store = open_store(dir / "kiln.db");
  ASSERT_TRUE(store->maintenance().check(true));
  EXPECT_EQ(store->maintenance().stats()->front().binaries, 1);
  EXPECT_TRUE(store->winners().best(key_of(32, 32, 32), test::kNow));
}

TEST(Unpacked, RowsThatNothingNamesAreChecked) {
  TempDir dir;
  store_winner(*open_store(dir / "kiln.db"), key_of(64, 96, 128), 6);
  tamper(dir / "kiln.db",
         "INSERT INTO source (id, hash, bytes, data) VALUES (1000, 'h', 10, x'28b52ffd');"
         "INSERT INTO config (id, text, family) VALUES (1000, 'nonsense', 'none')");
  const auto store = open_store(dir / "kiln.db");
  EXPECT_THAT(store->maintenance().check(false)->problems,
              testing::UnorderedElementsAre(HasSubstr("source row 1000: cannot be read back"),
                                            HasSubstr("config row 1000: cannot be read back")));
  EXPECT_EQ(store->maintenance().check(true)->repaired, 2);
  EXPECT_TRUE(store->maintenance().check(false)->ok());
}

TEST(Unpacked, WhatKilnWritesIsFarFromTheLimit) {
  TempDir dir;
  for (const char* name : {"h100.kiln", "h200.kiln", "x86-64.kiln"}) {
    SQLite::Database db(test::source_dir() + "/db/" + name, SQLite::OPEN_READONLY);
    EXPECT_THAT(rows_beyond_limit(db), IsEmpty()) << name;
  }
  const std::vector<std::byte> zeros(1 << 20);
  EXPECT_TRUE(decompress(compress(zeros, Content::source), 1 << 20, kMaxTextBytes));
  EXPECT_FALSE(decompress(compress(zeros, Content::source), 1 << 20, (1 << 20) - 1));
}

}  // namespace kiln::unpacked_test
