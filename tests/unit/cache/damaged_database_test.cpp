// A file at the default path that is cut or another program's makes way for a new one, and is kept;
// one that somebody named stays, and the error says what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cache/layers/move_aside.h"
#include "cache/layers/schema.h"
#include "kiln/engine.hpp"
#include "kiln/log.hpp"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::damaged_database_test {

namespace fs = std::filesystem;
using test::key_of;
using test::kNow;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

FileId id_of(const fs::path& file) {
  struct stat info {};
  EXPECT_EQ(::stat(file.c_str(), &info), 0) << file;
  return {info.st_dev, info.st_ino};
}

/// A whole database cut in the middle, as a full disk or a killed copy leaves it.
void write_cut(const fs::path& file) {
  fs::remove(file);
  test::store_winner(*test::open_store(file), key_of(64, 96, 128), 6);
  fs::resize_file(file, fs::file_size(file) / 2);
}
void write_text(const fs::path& file) { std::ofstream(file) << std::string(5000, 'x'); }
void write_foreign(const fs::path& file) {
  fs::remove(file);
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE notes (text)");
}

class DamagedDatabase : public ::testing::Test {
 protected:
  DamagedDatabase() {
    for (const char* name : {"KILN_DB", "HOME"}) ::unsetenv(name);
    ::setenv("KILN_DB_PATH", "", 1);
    ::setenv("XDG_CACHE_HOME", dir_.path().c_str(), 1);
    fs::create_directory(dir_ / "kiln");
    set_log([this](LogLevel level, std::string_view message) {
      if (level == LogLevel::warn) said_.emplace_back(message);
    });
  }
  ~DamagedDatabase() override {
    set_log({});
    for (const char* name : {"KILN_DB_PATH", "XDG_CACHE_HOME"}) ::unsetenv(name);
  }
  /// Names of the files in the default folder that were moved aside.
  std::vector<std::string> aside() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_ / "kiln"))
      if (entry.path().string().find(".damaged-") != std::string::npos)
        names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  TempDir dir_;
  const fs::path file_ = dir_ / "kiln" / "kiln.db";
  std::vector<std::string> said_;
};

TEST_F(DamagedDatabase, AtTheDefaultPathMakesWayForANewOne) {
  for (const auto write : {write_cut, write_text, write_foreign}) {
    for (const std::string& name : aside()) fs::remove(dir_ / "kiln" / name);
    said_.clear();
    write(file_);
    const std::string before = bytes_of(file_);
    {
      const auto engine = Engine::open({.threads = 1});
      ASSERT_TRUE(engine) << engine.error().message;
    }
    ASSERT_EQ(aside().size(), 1u);
    EXPECT_EQ(bytes_of(dir_ / "kiln" / aside()[0]), before) << "kept as it was";
    EXPECT_THAT(said_, testing::Contains(AllOf(HasSubstr(file_.string()), HasSubstr(aside()[0]))));
    EXPECT_TRUE(Store::open({.database = file_})) << "the new one is whole";
    EXPECT_EQ(aside().size(), 1u);
  }
}

TEST_F(DamagedDatabase, ThatWasNamedStaysAndTheErrorSaysWhatToDo) {
  for (const auto write : {write_cut, write_text, write_foreign}) {
    write(file_);
    const std::string before = bytes_of(file_);
    const auto expect_error = [&](const OpenOptions& options) {
      const auto engine = Engine::open(options);
      ASSERT_FALSE(engine);
      EXPECT_THAT(engine.error().message, AllOf(HasSubstr(file_.string()), HasSubstr("rename it"),
                                                HasSubstr("name another")));
    };
    expect_error({.database = file_, .threads = 1});
    ::setenv("KILN_DB", file_.c_str(), 1);
    expect_error({.threads = 1});
    ::unsetenv("KILN_DB");
    EXPECT_EQ(bytes_of(file_), before);
    EXPECT_THAT(aside(), ElementsAre());
  }
}

TEST_F(DamagedDatabase, IsNotWhatANewerKilnWrote) {
  { test::open_store(file_); }
  test::tamper(file_, "PRAGMA user_version = " + std::to_string(schema_version() + 1));
  EXPECT_FALSE(Engine::open({.threads = 1}));
  EXPECT_THAT(aside(), ElementsAre());
}

TEST_F(DamagedDatabase, IsNeverOverwritten) {
  const auto moved = [&](const std::string& text) {
    std::ofstream(file_) << text;
    std::ofstream(file_.string() + "-wal") << "log of " << text;
    const auto name = move_aside(file_, id_of(file_), "2026-11-29");
    EXPECT_TRUE(name) << name.error().message;
    return name.value_or(fs::path());
  };
  const fs::path first = moved("one"), second = moved("two");
  EXPECT_EQ(first.filename(), "kiln.db.damaged-2026-11-29");
  EXPECT_EQ(second.filename(), "kiln.db.damaged-2026-11-29-2");
  EXPECT_EQ(bytes_of(first), "one");
  EXPECT_EQ(bytes_of(second), "two");
  EXPECT_EQ(bytes_of(first.string() + "-wal"), "log of one") << "it belongs to the file";
  EXPECT_FALSE(fs::exists(file_.string() + "-wal")) << "it would be replayed into the new file";
}

TEST_F(DamagedDatabase, IsMovedByOneProcessOnly) {
  write_text(file_);
  const FileId found = id_of(file_);
  fs::rename(file_, dir_ / "kept");  // what another process did meanwhile
  { test::open_store(file_); }
  const auto name = move_aside(file_, found, "2026-11-29");
  ASSERT_TRUE(name);
  EXPECT_TRUE(name->empty());
  EXPECT_TRUE(fs::exists(file_)) << "the new file of the other one";
}

TEST_F(DamagedDatabase, BehindALinkStaysAndTheLinkIsMoved) {
  write_text(dir_ / "elsewhere");
  fs::create_symlink(dir_ / "elsewhere", file_);
  ASSERT_TRUE(Engine::open({.threads = 1}));
  EXPECT_EQ(bytes_of(dir_ / "elsewhere"), std::string(5000, 'x'));
  EXPECT_FALSE(fs::is_symlink(file_));
  EXPECT_EQ(aside().size(), 1u);
}

}  // namespace kiln::damaged_database_test
