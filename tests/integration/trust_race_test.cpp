// Two database files that change places without a pause: whatever an open gets to see, machine code
// that others may have written is not loaded.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "cache/exchange/transfer.h"
#include "cache/records/binaries.h"
#include "cache/records/winners.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::trust_race_test {

using test::code_of;
using test::key_of;
using test::kNow;
using test::open_store;
using test::store_winner;

constexpr int kOurs = 6, kTheirs = 9;  // what tells the two files' code apart
constexpr int kOpens = 200, kMostOpens = 4000;
/// Opens that must have met the foreign file for a run to have shown anything.
constexpr int kForeignSeen = 20;
constexpr uid_t kStranger = 1001;

/// Gives a path to another user; where this is not root, lets all write it instead.
void give_away(const std::filesystem::path& path, mode_t writable_by_all) {
  if (::geteuid() == 0)
    ASSERT_EQ(::chown(path.c_str(), kStranger, kStranger), 0);
  else
    ASSERT_EQ(::chmod(path.c_str(), writable_by_all), 0);
}

/// "ours.db" and "theirs.db" in one folder; theirs is another user's.
class Exchanged : public ::testing::Test {
 protected:
  Exchanged() {
    ::setenv("KILN_LOG", "off", 0);  // a warning an open
    make("ours.db", kOurs);
    make("theirs.db", kTheirs);
    give_away(dir_ / "theirs.db", 0666);
  }
  ~Exchanged() override {
    stop_ = true;
    if (exchanger_.joinable()) exchanger_.join();
  }

  void start() {
    const std::string a = dir_ / "ours.db", b = dir_ / "theirs.db";
    ASSERT_EQ(::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE),
              0);
    exchanger_ = std::thread([this, a, b] {
      while (!stop_)
        ::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
    });
  }

  TempDir dir_;
  const BestKey key_ = key_of(64, 96, 128);

 private:
  void make(const char* name, int mr) {
    store_winner(*open_store(dir_ / name), key_, mr);
    // Without a log beside them, which would not change places with its file.
    test::tamper(dir_ / name, "PRAGMA journal_mode = DELETE");
  }

  std::atomic<bool> stop_{false};
  std::thread exchanger_;
};

TEST_F(Exchanged, InAnotherUsersFolderNoCodeIsLoaded) {
  give_away(dir_.path(), 0777);
  start();
  int foreign = 0, opens = 0;
  for (; opens < kOpens || (foreign < kForeignSeen && opens < kMostOpens); ++opens) {
    const auto store = Store::open({.database = {}, .shipped = {dir_ / "ours.db"}});
    if (!store) continue;
    const auto record = (*store)->winners().best(key_, kNow);
    if (!record) continue;
    foreign += record->measured.config == test::config_of(kTheirs);
    ASSERT_TRUE(record->image.empty()) << "at open " << opens;
  }
  EXPECT_GE(foreign, kForeignSeen) << "the exchange met too few opens to show anything";
}

// Here this user exchanges the files itself: the walk finds nothing wrong with the folders, so what
// is left are the looks at the file before and after SQLite has opened it.
TEST_F(Exchanged, InThisUsersFolderOnlyTheCheckedFilesCodeIsLoaded) {
  start();
  int foreign = 0, opens = 0;
  for (; opens < kOpens || (foreign < kForeignSeen && opens < kMostOpens); ++opens) {
    const auto store = Store::open({.database = {}, .shipped = {dir_ / "ours.db"}});
    if (!store) continue;
    const auto record = (*store)->winners().best(key_, kNow);
    if (!record) continue;
    const bool theirs = record->measured.config == test::config_of(kTheirs);
    foreign += theirs;
    ASSERT_TRUE(!theirs || record->image.empty()) << "at open " << opens;
  }
  EXPECT_GE(foreign, kForeignSeen) << "the exchange met too few opens to show anything";
}

TEST_F(Exchanged, AnImportTakesNoCodeThatWasNotChecked) {
  start();
  int foreign = 0, imports = 0;
  for (; imports < kOpens || (foreign < kForeignSeen && imports < kMostOpens); ++imports) {
    auto store = open_store({});
    if (!store->transfer().import_from(dir_ / "ours.db")) continue;
    const auto record = store->winners().best(key_, kNow);
    if (!record) continue;
    const bool theirs = record->measured.config == test::config_of(kTheirs);
    foreign += theirs;
    ASSERT_TRUE(!theirs || record->image.empty()) << "at import " << imports;
    ASSERT_FALSE(store->binaries().of_source(code_of(kTheirs).code_key, ""))
        << "at import " << imports;
  }
  EXPECT_GE(foreign, kForeignSeen) << "the exchange met too few imports to show anything";
}

TEST_F(Exchanged, AnExportTakesNoCodeThatWasNotChecked) {
  start();
  int foreign = 0, exports = 0;
  TempDir out;
  for (; exports < kOpens || (foreign < kForeignSeen && exports < kMostOpens); ++exports) {
    auto store = Store::open({.database = {}, .shipped = {dir_ / "ours.db"}});
    if (!store || !(*store)->transfer().export_to(out / "out.db")) continue;
    auto exported = open_store({}, {out / "out.db"});
    const auto record = exported->winners().best(key_, kNow);
    if (!record) continue;
    foreign += record->measured.config == test::config_of(kTheirs);
    ASSERT_FALSE(exported->binaries().of_source(code_of(kTheirs).code_key, ""))
        << "at export " << exports;
  }
  EXPECT_GE(foreign, kForeignSeen) << "the exchange met too few exports to show anything";
}

}  // namespace kiln::trust_race_test
