// The database as a file: how it is opened, trusted, migrated and journalled, and where it lies.
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cache/exchange/transfer.h"
#include "cache/keys.h"
#include "cache/layers/layer.h"
#include "cache/layers/schema.h"
#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/prune.h"
#include "cache/records/winners.h"
#include "cache/rows/rows.h"
#include "cache/rows/seal.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::store_file_test {

using test::code_of;
using test::key_of;
using test::kNow;
using test::open_store;
using test::store_winner;
using test::tamper;
using testing::HasSubstr;

TEST(FileTrust, CodeFromAFileThatOthersMayWriteIsAbsent) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  store_winner(*open_store(dir / "kiln.db"), key, 6);
  ::chmod((dir / "kiln.db").c_str(), 0666);
  auto store = open_store(dir / "kiln.db");
  const auto record = store->winners().best(key, kNow);
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->image.empty());
  EXPECT_EQ(record->source, code_of(6).source);
  EXPECT_FALSE(store->binaries().of_source("source6", ""));
  EXPECT_FALSE(store->maintenance().stats()->front().trusted);

  auto importer = open_store(dir / "own.db");
  const auto report = importer->transfer().import_from(dir / "kiln.db");
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->trusted);
  EXPECT_EQ(report->binaries, 0);
  EXPECT_TRUE(importer->winners().best(key, kNow)->image.empty());
}

TEST(FileTrust, AnExportVouchesForNothingThatOthersMayHaveWritten) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  store_winner(*open_store(dir / "kiln.db"), key, 6);
  ::chmod((dir / "kiln.db").c_str(), 0666);
  ASSERT_TRUE(open_store(dir / "kiln.db")->transfer().export_to(dir / "out.db"));
  auto out = open_store(dir / "out.db");
  ASSERT_TRUE(out->winners().best(key, kNow));
  EXPECT_TRUE(out->winners().best(key, kNow)->image.empty());
  EXPECT_FALSE(out->binaries().of_source("source6", ""));
}

// A stranger's row may name any code by its key: also what is here, for another problem.
TEST(FileTrust, RowsOfAFileThatOthersMayWriteNameNoCode) {
  TempDir dir;
  const BestKey ours = key_of(512, 512, 512), theirs = key_of(64, 64, 64);
  store_winner(*open_store(dir / "theirs.db"), theirs, 6);
  ::chmod((dir / "theirs.db").c_str(), 0666);
  auto own = open_store(dir / "own.db");
  store_winner(*own, ours, 6);
  ASSERT_FALSE(own->winners().best(ours, kNow)->image.empty());
  ASSERT_FALSE(own->transfer().import_from(dir / "theirs.db")->trusted);
  EXPECT_EQ(own->winners().best(theirs, kNow)->measured.config,
            own->winners().best(ours, kNow)->measured.config);
  EXPECT_TRUE(own->winners().best(theirs, kNow)->image.empty());

  // The same by way of an export: what was written by others is now in a file of this user's.
  ASSERT_TRUE(
      open_store(dir / "theirs.db", {dir / "own.db"})->transfer().export_to(dir / "out.db"));
  EXPECT_TRUE(open_store(dir / "out.db")->winners().best(theirs, kNow)->image.empty());
}

// Once its pages are read, a damaged file must not be taken for the one that imports it.
TEST(OpenFile, ADamagedImportIsNamed) {
  TempDir dir;
  auto own = open_store(dir / "own.db");
  {
    auto theirs = open_store(dir / "theirs.db");
    for (int m = 1; m < 40; ++m) store_winner(*theirs, key_of(m, 96, 128), 6);
  }
  ASSERT_TRUE(open_store(dir / "theirs.db")->transfer().export_to(dir / "damaged.db"));
  {
    std::fstream file(dir / "damaged.db", std::ios::in | std::ios::out | std::ios::binary);
    const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(dir / "damaged.db"));
    for (std::streamoff page = 4096 * 8; page < bytes; page += 4096 * 3) {
      file.seekp(page);
      file << std::string(512, '\xff');
    }
  }
  const auto report = own->transfer().import_from(dir / "damaged.db");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::database);
  EXPECT_THAT(report.error().message, HasSubstr("damaged.db"));
  EXPECT_TRUE(own->transfer().import_from(dir / "theirs.db"));
}

TEST(OpenFile, AViewInATablesPlaceIsRefused) {
  TempDir dir;
  store_winner(*open_store(dir / "kiln.db"), key_of(64, 96, 128), 6);
  tamper(dir / "kiln.db",
         "DROP TABLE verification; CREATE VIEW verification AS WITH RECURSIVE n(i) AS "
         "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS binary_key FROM n");
  const auto opened = Store::open({.database = dir / "kiln.db"});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::database);
  EXPECT_THAT(opened.error().message, HasSubstr("views"));
}

TEST(OpenFile, MakesFoldersAndAFileOnlyItsOwnerWrites) {
  TempDir dir;
  const auto old = ::umask(0);
  { open_store(dir / "a/b/kiln.db"); }
  ::umask(old);
  struct stat info {};
  ASSERT_EQ(::stat((dir / "a/b/kiln.db").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 022, 0u);
  for (const char* folder : {"a", "a/b"}) {
    ASSERT_EQ(::stat((dir / folder).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 022, 0u) << folder;
  }
  EXPECT_EQ(open_store(dir / "a/b/kiln.db")->maintenance().stats()->front().journal, "wal");
}

TEST(OpenFile, RefusesWhatIsNoDatabaseOfOurs) {
  TempDir dir;
  std::ofstream(dir / "text.db") << std::string(5000, 'x');
  {
    SQLite::Database(dir / "other.db", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
        .exec("CREATE TABLE recipes (id INTEGER)");
  }
  for (const char* name : {"text.db", "other.db"}) {
    const auto before = std::filesystem::file_size(dir / name);
    const auto store = Store::open({.database = dir / name});
    ASSERT_FALSE(store) << name;
    EXPECT_EQ(store.error().code, ErrorCode::database);
    EXPECT_THAT(store.error().message, HasSubstr((dir / name).string()));
    EXPECT_EQ(std::filesystem::file_size(dir / name), before) << "touched";
  }
  EXPECT_FALSE(Store::open({.database = dir / "text.db/below.db"}));
  EXPECT_FALSE(Store::open({.database = dir.path()}));
  EXPECT_FALSE(Store::open({.database = {}, .shipped = {dir / "absent.db"}}));
}

TEST(OpenFile, ANewerSchemaIsLeftUntouched) {
  TempDir dir;
  store_winner(*open_store(dir / "kiln.db"), key_of(64, 96, 128), 6);
  tamper(dir / "kiln.db", "PRAGMA journal_mode = DELETE; PRAGMA user_version = 99");
  const auto written = std::filesystem::last_write_time(dir / "kiln.db");
  const auto store = Store::open({.database = dir / "kiln.db"});
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message, HasSubstr((dir / "kiln.db").string()));
  EXPECT_THAT(store.error().message,
              HasSubstr(fmt::format("version 99 is newer than {}", schema_version())));
  EXPECT_EQ(std::filesystem::last_write_time(dir / "kiln.db"), written);
}

TEST(OpenFile, TruncatedFilesAreErrorsOrMisses) {
  TempDir dir;
  store_winner(*open_store(dir / "kiln.db"), key_of(64, 96, 128), 6);
  tamper(dir / "kiln.db", "PRAGMA journal_mode = DELETE");
  const auto size = std::filesystem::file_size(dir / "kiln.db");
  for (const auto kept : {size / 2, size / 4, std::uintmax_t{4096}, std::uintmax_t{50}}) {
    std::filesystem::copy_file(dir / "kiln.db", dir / "cut.db",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(dir / "cut.db", kept);
    auto store = Store::open({.database = dir / "cut.db"});
    if (store) {
      const auto record = (*store)->winners().best(key_of(64, 96, 128), kNow);
      EXPECT_TRUE(!record || record->image.empty() || record->image == code_of(6).image);
      const auto report = (*store)->maintenance().check(false);
      EXPECT_TRUE(!report || !report->ok()) << kept;
    } else {
      EXPECT_THAT(store.error().message, HasSubstr("cut.db"));
    }
    std::filesystem::remove(dir / "cut.db-wal");
    std::filesystem::remove(dir / "cut.db-shm");
  }
}

TEST(Migrations, StepsRunOnceInOrderOrNotAtAll) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  const Migration one[] = {{1, "CREATE TABLE t (x INTEGER)"}};
  ASSERT_TRUE(migrate(db, "m", one));
  ASSERT_TRUE(migrate(db, "m", one));
  db.exec("INSERT INTO t VALUES (7)");
  const Migration two[] = {one[0], {2, "ALTER TABLE t ADD COLUMN y INTEGER DEFAULT 5"}};
  ASSERT_TRUE(migrate(db, "m", two));
  EXPECT_EQ(db.execAndGet("SELECT x + y FROM t").getInt(), 12);
  EXPECT_EQ(*read_version(db, "m", two), 2);
  const Migration broken[] = {one[0], two[1], {3, "CREATE TABLE u (x); CREATE TABLE t (x)"}};
  EXPECT_ANY_THROW((void)migrate(db, "m", broken));
  EXPECT_EQ(*read_version(db, "m", two), 2);
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM sqlite_schema WHERE name = 'u'").getInt(), 0);
  EXPECT_FALSE(migrate(db, "m", one));  // now newer than what `one` knows
}

TEST(Migrations, ColumnsAreTheFieldsOfTheKeys) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  ASSERT_TRUE(migrate(db, "m"));
  const auto columns = [&](const std::string& table, std::set<std::string> fixed) {
    SQLite::Statement row(db, "SELECT name FROM pragma_table_info('" + table + "')");
    std::set<std::string> names;
    while (row.executeStep())
      if (!fixed.contains(row.getColumn(0).getString())) names.insert(row.getColumn(0).getString());
    return names;
  };
  std::set<std::string> fields;
  const auto add = [&](std::string_view name, const auto&) { fields.emplace(name); };
  for (const GemmField& field : kGemmFields) fields.emplace(field.name);
  EXPECT_EQ(columns("problem", {"id", "key", "class"}), fields);
  fields.clear();
  DeviceCaps device;
  for_each_device_field(device, add);
  EXPECT_EQ(columns("device", {"id", "key"}), fields);
  fields.clear();
  Validators validators;
  for_each_validator_field(validators, add);
  EXPECT_EQ(columns("toolchain", {"id", "key"}), fields);
  fields.clear();
  SearchExtent searched;
  for_each_search_field(searched, add);
  EXPECT_EQ(columns("search", {"id", "device_id", "problem_id", "policy", "determinism",
                               "toolchain_id", "created"}),
            fields);
}

/// Appends the columns that a version has, and what they hold of a problem.
void add_values(const Gemm& gemm, int version, std::string& names, std::string& values) {
  for (const GemmField& field : kGemmFields) {
    if (field.since > version) continue;
    names += ", " + std::string(field.name);
    values += std::visit([](const auto& v) { return fmt::format(", '{}'", v); },
                         column_value(field, field.get(gemm)));
  }
}

/// Rows made before operands could have scales, or a bias of D's type, are those of problems
/// without.
TEST(Migrations, OlderProblemsHaveNeitherScalesNorABiasAsD) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  const auto before = migrations().first(2);
  ASSERT_TRUE(migrate(db, "m", before));
  const Gemm gemm = Gemm::row_major(3, 5, 7, fp8_e4m3).transpose_b();
  const auto cut = [](std::string text) {
    const std::string since = "scale_a=none;scale_b=none;bias_as_d=0;";
    EXPECT_TRUE(text.ends_with(since)) << text;
    return text.substr(0, text.size() - since.size());
  };
  std::string names = "key, class",
              values = "'" + cut(key_text(gemm)) + "', '" + cut(class_text(gemm)) + "'";
  add_values(gemm, 2, names, values);
  db.exec("INSERT INTO problem (" + names + ") VALUES (" + values + ")");
  db.exec("INSERT INTO verification VALUES ('b', '" + cut(key_text(gemm)) +
          " threads=4', 'r', 'c')");
  ASSERT_TRUE(migrate(db, "m"));
  EXPECT_EQ(db.execAndGet("SELECT key FROM problem").getString(), key_text(gemm));
  EXPECT_EQ(db.execAndGet("SELECT class FROM problem").getString(), class_text(gemm));
  EXPECT_EQ(db.execAndGet("SELECT scale_b FROM problem").getString(), "none");
  EXPECT_EQ(db.execAndGet("SELECT problem_key FROM verification").getString(),
            key_text(gemm) + " threads=4");
}

/// Kernels of 8-bit floats made before there were numerics sum as `fast` ones may, where the
/// device's tensor cores truncate sums.
TEST(Migrations, OlderProductsOfSmallFloatsAreFast) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  ASSERT_TRUE(migrate(db, "m", migrations().first(8)));
  const auto add = [&](const char* line, const char* device) {
    const Gemm gemm = parse_gemm(line).value();
    BestKey key{.device = caps_named(device).value(), .gemm = gemm, .policy = "p"};
    std::string names = "key, class",
                values = "'" + key_text(gemm) + "', '" + class_text(gemm) + "'";
    add_values(gemm, 8, names, values);
    db.exec("INSERT INTO problem (" + names + ") VALUES (" + values + ")");
    const KeyIds ids{.device = device_row(db, key.device),
                     .problem = db.execAndGet("SELECT max(id) FROM problem").getInt64(),
                     .toolchain = toolchain_row(db, test::kNow)};
    put_measurement(db, key, ids, test::timed(6, 1000), std::nullopt);
    db.exec("UPDATE measurement SET winner = 1 WHERE problem_id = " + std::to_string(ids.problem));
    stamp_winner(db, key, ids);
  };
  // put_measurement() fills today's columns.
  for (const char* column : {"joules", "sm_mhz"})
    db.exec(fmt::format("ALTER TABLE measurement ADD COLUMN {} REAL", column));
  add("fp8 N T 64 64 64", "sm_90a");
  add("fp8 N T 64 64 128", "gfx942");
  add("fp8 N T 64 64 256 scale=1x128", "sm_90a");
  add("bf16 N T 64 64 512", "sm_90a");
  for (const char* column : {"joules", "sm_mhz"})
    db.exec(fmt::format("ALTER TABLE measurement DROP COLUMN {}", column));
  db.exec(
      "INSERT INTO fit (device_id, class, policy, determinism, hash, bytes, data, created) "
      "SELECT device_id, class, 'p', 'run_to_run', '', 0, x'', '' FROM measurement JOIN problem "
      "ON problem.id = problem_id WHERE k = 64");
  ASSERT_TRUE(migrate(db, "m"));
  const auto numerics = [&](int k) {
    return db.execAndGet("SELECT numerics FROM problem WHERE k = " + std::to_string(k)).getString();
  };
  EXPECT_EQ(numerics(64), "fast");
  EXPECT_EQ(numerics(128), "ieee");
  EXPECT_EQ(numerics(256), "ieee");
  EXPECT_EQ(numerics(512), "ieee");
  const Gemm fast = parse_gemm("fp8 N T 64 64 64 numerics=fast").value();
  EXPECT_EQ(read_problem(db, 1), fast);
  EXPECT_EQ(db.execAndGet("SELECT class FROM fit").getString(), class_text(fast));
  for (int id = 1; id <= 4; ++id) {
    EXPECT_TRUE(read_problem(db, id)) << id;
    EXPECT_TRUE(measurement_sealed(db, id)) << id;
  }
}

TEST(Journal, NetworkedFileSystemsAreKnown) {
  EXPECT_TRUE(is_networked(0x6969));                         // NFS
  EXPECT_TRUE(is_networked(static_cast<long>(0xff534d42)));  // CIFS, as 64-bit statfs gives it
  EXPECT_TRUE(is_networked(static_cast<int>(0xff534d42)));   // and as 32-bit ones do
  EXPECT_TRUE(is_networked(0x01021997));                     // 9p
  EXPECT_FALSE(is_networked(0xef53));                        // ext4
  EXPECT_FALSE(is_networked(0x01021994));                    // tmpfs
  EXPECT_FALSE(is_networked(0x9123683e));                    // btrfs
}

// Found by soak_database: SQLite wrote to the log, and left the header as it was. Once the log was
// empty, whoever opened the file took the header's word and waited for the first one to close it.
TEST(Journal, ALogBesideAFileThatHasNoneIsNobodys) {
  TempDir dir;
  const std::filesystem::path file = dir / "kiln.db";
  store_winner(*open_store(file), key_of(64, 96, 128), 6);
  tamper(file, "PRAGMA journal_mode = DELETE");
  std::ofstream(dir / "kiln.db-wal") << std::string(12361, 'x');
  const auto first = open_store(file);
  ASSERT_TRUE(first->maintenance().prune({.older_than_days = 0}));
  const auto second = Store::open({.database = file});
  ASSERT_TRUE(second) << second.error().message;
  store_winner(**second, key_of(1, 2, 3), 6);
  EXPECT_TRUE(first->winners().best(key_of(1, 2, 3), kNow));
  EXPECT_TRUE(first->winners().best(key_of(64, 96, 128), kNow));
}

}  // namespace kiln::store_file_test
