// Files made before there were dictionaries, and making them smaller.
#include <SQLiteCpp/Statement.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zstd.h>

#include <filesystem>

#include "cache/codec/codec.h"
#include "cache/exchange/transfer.h"
#include "cache/layers/schema.h"
#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "generator/problem/fields.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::compact_test {

using test::key_of;
using test::kNow;
using test::open_store;
using test::tamper;
using testing::HasSubstr;

/// Kernel text and code of a CPU, as like as kernels are: both are found in the dictionaries.
StoredBinary kernel_of(int mr) {
  StoredBinary kernel = test::code_of(mr);
  const auto part = [](const Dictionary& d) { return d.bytes.subspan(d.bytes.size() - 30'000); };
  kernel.source += as_text(part(dictionaries()[0]));
  kernel.image.assign(64, std::byte{});
  for (int i = 0; i < 4; ++i) kernel.image[i] = std::byte("\177ELF"[i]);
  kernel.image[18] = std::byte{62};
  for (const std::byte b : part(dictionaries()[2])) kernel.image.push_back(b);
  for (int i = 0; i < 64; ++i) kernel.image.push_back(static_cast<std::byte>(i * mr));
  return kernel;
}

void store_kernel(Store& store, const BestKey& key, int mr) {
  ASSERT_TRUE(store.measurements().put(key, kNow, test::timed(mr, 1000)));
  ASSERT_TRUE(store.binaries().put(kernel_of(mr)));
  ASSERT_TRUE(store.winners().make_winner(key, kNow, test::config_of(mr)));
}

/// Turns a file into one of version 12: every frame without a dictionary, no column of version 14.
void to_version12(const std::filesystem::path& file) {
  SQLite::Database db(file.string(), SQLite::OPEN_READWRITE, 5000);
  for (const char* rows : {"SELECT id, bytes, data FROM source",
                           "SELECT id, bytes, data FROM binary JOIN binary_data USING (id)"}) {
    const bool source = std::string_view(rows).ends_with("source");
    std::vector<std::pair<std::int64_t, std::vector<std::byte>>> frames;
    SQLite::Statement row(db, rows);
    while (row.executeStep()) {
      const auto* data = static_cast<const std::byte*>(row.getColumn(2).getBlob());
      const auto bytes =
          decompress({data, std::size_t(row.getColumn(2).getBytes())}, row.getColumn(1).getInt64());
      ASSERT_TRUE(bytes);
      std::vector<std::byte> old(ZSTD_compressBound(bytes->size()));
      old.resize(ZSTD_compress(old.data(), old.size(), bytes->data(), bytes->size(), 9));
      frames.emplace_back(row.getColumn(0).getInt64(), std::move(old));
    }
    for (const auto& [id, frame] : frames) {
      SQLite::Statement set(db, source ? "UPDATE source SET data = ? WHERE id = ?"
                                       : "UPDATE binary_data SET data = ? WHERE id = ?");
      set.bind(1, frame.data(), static_cast<int>(frame.size()));
      set.bind(2, id);
      set.exec();
    }
  }
  test::drop_columns_since(db, 12);
  db.exec("PRAGMA journal_mode = DELETE; DROP TABLE limits; PRAGMA user_version = 12");
}

std::int64_t number(const std::filesystem::path& file, const char* query) {
  SQLite::Database db(file.string(), SQLite::OPEN_READONLY, 5000);
  return db.execAndGet(query).getInt64();
}
std::string seals(const std::filesystem::path& file) {
  SQLite::Database db(file.string(), SQLite::OPEN_READONLY, 5000);
  return db
      .execAndGet(
          "SELECT group_concat(seal || hash, ' ') || (SELECT group_concat(hash, ' ') FROM source) "
          "|| (SELECT group_concat(seal, ' ') FROM measurement) FROM binary")
      .getString();
}
constexpr const char* kFrameBytes =
    "SELECT (SELECT sum(length(data)) FROM source) + (SELECT sum(length(data)) FROM binary_data)";

class Compact : public testing::Test {
 protected:
  void SetUp() override {
    auto store = open_store(file());
    for (const int mr : {4, 6, 8}) store_kernel(*store, key_of(64, 96, mr), mr);
  }
  std::filesystem::path file() const { return dir_ / "kiln.db"; }
  void expect_all_there(Store& store) {
    for (const int mr : {4, 6, 8}) {
      const auto record = store.winners().best(key_of(64, 96, mr), kNow);
      ASSERT_TRUE(record) << mr;
      EXPECT_EQ(record->image, kernel_of(mr).image);
    }
    const auto report = store.maintenance().check(false);
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->ok()) << report->problems.front();
  }
  TempDir dir_;
};

TEST_F(Compact, AFileOfVersion12IsReadOnceItIsMigrated) {
  to_version12(file());
  const auto older = Store::open({.database = {}, .shipped = {file()}});
  ASSERT_FALSE(older);
  EXPECT_THAT(older.error().message, HasSubstr("schema version 12 is older than"));
  expect_all_there(*open_store(file()));
  expect_all_there(*open_store(dir_ / "own.db", {file()}));
  EXPECT_TRUE(reads_as_today(schema_version()));
  EXPECT_TRUE(reads_as_today(17)) << "some columns less";
  EXPECT_FALSE(reads_as_today(16)) << "a table less";
  EXPECT_FALSE(reads_as_today(0));
}

TEST_F(Compact, AFileOfVersion12IsMigratedWithItsFrames) {
  to_version12(file());
  const auto frames = number(file(), kFrameBytes);
  expect_all_there(*open_store(file()));
  EXPECT_EQ(number(file(), "PRAGMA user_version"), schema_version());
  EXPECT_EQ(number(file(), kFrameBytes), frames);
}

TEST_F(Compact, FramesBecomeSmallAndRowsStayTheSame) {
  const auto with_dictionaries = number(file(), kFrameBytes);
  to_version12(file());
  EXPECT_GT(number(file(), kFrameBytes), 3 * with_dictionaries);
  const std::string before = seals(file());
  auto store = open_store(file());
  const auto report = store->maintenance().compact();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->frames, 6);
  EXPECT_EQ(report->made_smaller, 6);
  EXPECT_LT(report->bytes_after, report->bytes_before);
  EXPECT_EQ(report->bytes_after, std::int64_t(std::filesystem::file_size(file())));
  EXPECT_LT(number(file(), kFrameBytes), 2 * with_dictionaries);
  EXPECT_EQ(seals(file()), before);
  expect_all_there(*store);
  EXPECT_EQ(store->maintenance().compact()->made_smaller, 0);
}

TEST_F(Compact, AnExportIsCompact) {
  to_version12(file());
  const auto before = number(file(), kFrameBytes);
  auto store = open_store(file());
  ASSERT_TRUE(store->transfer().export_to(dir_ / "out.kiln"));
  EXPECT_EQ(number(file(), kFrameBytes), before) << "its own frames stay";
  EXPECT_LT(3 * number(dir_ / "out.kiln", kFrameBytes), before);
  EXPECT_EQ(number(dir_ / "out.kiln", "PRAGMA freelist_count"), 0);
  expect_all_there(*open_store(dir_ / "own.db", {dir_ / "out.kiln"}));
}

TEST_F(Compact, WhatCannotBeReadStaysAndIsReported) {
  tamper(file(),
         "UPDATE source SET data = x'00' WHERE id = 1; "
         "UPDATE binary_data SET data = randomblob(50) WHERE id = 2");
  auto store = open_store(file());
  const auto report = store->maintenance().compact();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->frames, 6);
  EXPECT_EQ(number(file(), "SELECT length(data) FROM source WHERE id = 1"), 1);
  EXPECT_EQ(number(file(), "SELECT length(data) FROM binary_data WHERE id = 2"), 50);
  EXPECT_EQ(store->maintenance().check(false)->problems.size(), 2u);
  EXPECT_TRUE(store->winners().best(key_of(64, 96, 8), kNow));
}

TEST_F(Compact, ShippedFilesStayAndADatabaseInMemoryWillDo) {
  tamper(file(), "PRAGMA journal_mode = DELETE");
  auto reader = open_store(dir_ / "own.db", {file()});
  const auto before = number(file(), kFrameBytes);
  ASSERT_TRUE(reader->maintenance().compact());
  EXPECT_EQ(number(file(), kFrameBytes), before) << "a shipped file";
  EXPECT_TRUE(open_store(kInMemory)->maintenance().compact());
}

}  // namespace kiln::compact_test
