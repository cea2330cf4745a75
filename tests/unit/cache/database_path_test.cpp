// What a database's path may name, where it lies when nobody names it, what becomes of one whose
// file goes away, and what of a file's text reaches messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "cache/exchange/transfer.h"
#include "cache/printable.h"
#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "support/child.h"
#include "support/eventually.h"
#include "support/opened_engine.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::database_path_test {

using test::key_of;
using test::kNow;
using test::open_store;
using test::store_winner;
using test::timed;
using testing::AllOf;
using testing::HasSubstr;

/// The error of opening `path` as the user's database and as a shipped one. In a child: opening a
/// FIFO could wait for ever.
void expect_refused(const std::filesystem::path& path, const std::string& what) {
  EXPECT_TRUE(test::in_child([&] {
    test::end_when_hung();
    const auto own = Store::open({.database = path});
    const auto shipped = Store::open({.database = {}, .shipped = {path}});
    const auto imported = open_store({})->transfer().import_from(path);
    const Status exported = open_store({})->transfer().export_to(path);
    if (own || shipped || imported || exported) return false;
    bool good = own.error().code == ErrorCode::database;
    for (const std::string& message : {own.error().message, shipped.error().message,
                                       imported.error().message, exported.error().message}) {
      good =
          good && message.find(path.string()) != message.npos && message.find(what) != message.npos;
      if (!good) std::fprintf(stderr, "%s\n", message.c_str());
    }
    return good;
  })) << path
      << ": " << what;
}

TEST(DatabasePath, NamesARegularFileOrIsRefused) {
  TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0644), 0);
  std::filesystem::create_directory(dir / "folder");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, (dir / "socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
  expect_refused(dir / "fifo", "a FIFO");
  expect_refused(dir / "folder", "a directory");
  expect_refused(dir / "socket", "a socket");
  expect_refused("/dev/null", "a character device");
  struct stat info {};
  ASSERT_EQ(::stat((dir / "fifo").c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode)) << "an export took its place";
  ASSERT_EQ(::stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode)) << "an export took its place";
}

TEST(DatabasePath, ALinkOrALogThatIsNoRegularFileIsRefusedToo) {
  TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0644), 0);
  std::filesystem::create_symlink(dir / "fifo", dir / "link");
  const auto refused = [](const std::filesystem::path& path) {
    return test::in_child([&] {
      test::end_when_hung();
      const auto opened = Store::open({.database = path});
      return !opened && opened.error().message.find("a FIFO") != std::string::npos;
    });
  };
  EXPECT_TRUE(refused(dir / "link"));
  { open_store(dir / "kiln.db"); }
  for (const char* suffix : {"-wal", "-shm", "-journal"}) {
    const std::filesystem::path log = (dir / "kiln.db").string() + suffix;
    ASSERT_EQ(::mkfifo(log.c_str(), 0644), 0);
    EXPECT_TRUE(refused(dir / "kiln.db")) << log;
    std::filesystem::remove(log);
  }
  EXPECT_TRUE(Store::open({.database = dir / "kiln.db"}));
}

TEST(DatabasePath, MemoryLeavesNoFile) {
  TempDir dir;
  EXPECT_TRUE(test::in_child([&] {
    std::filesystem::current_path(dir.path());
    auto store = open_store(":memory:");
    store_winner(*store, key_of(64, 96, 128), 6);
    auto engine = Engine::open({.database = ":memory:", .threads = 1});
    return store->path() == ":memory:" && engine.has_value() &&
           !store->winners().best(key_of(64, 96, 128), kNow)->image.empty();
  }));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

class DefaultPath : public ::testing::Test {
 protected:
  DefaultPath() {
    for (const char* name : {"KILN_DB", "KILN_DB_PATH", "XDG_CACHE_HOME", "HOME"}) ::unsetenv(name);
  }
};

TEST_F(DefaultPath, ComesFromTheEnvironment) {
  ::setenv("HOME", "/home/u", 1);
  EXPECT_EQ(default_database(), "/home/u/.cache/kiln/kiln.db");
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(default_database(), "/cache/kiln/kiln.db");
  ::setenv("KILN_DB", "/x/y.db", 1);
  EXPECT_EQ(default_database(), "/x/y.db");
  ::setenv("KILN_DB", "here.db", 1);
  EXPECT_EQ(default_database(), "here.db") << "a name that was asked for";
  ::setenv("KILN_DB_PATH", "/a.db::/b.db", 1);
  EXPECT_THAT(default_shipped(), testing::ElementsAre("/a.db", "/b.db"));
  ::unsetenv("KILN_DB_PATH");
  EXPECT_TRUE(default_shipped().empty());
}

TEST_F(DefaultPath, IsNeverInTheWorkingDirectory) {
  ::setenv("HOME", "/home/u", 1);
  for (const char* relative : {"", "cache", ".", "../cache"}) {
    ::setenv("XDG_CACHE_HOME", relative, 1);
    EXPECT_EQ(default_database(), "/home/u/.cache/kiln/kiln.db") << relative;
  }
  const passwd* user = ::getpwuid(::geteuid());
  ASSERT_NE(user, nullptr);
  const std::filesystem::path home = user->pw_dir;
  for (const char* relative : {"", "home", "."}) {
    ::setenv("HOME", relative, 1);
    EXPECT_EQ(default_database(), home / ".cache/kiln/kiln.db") << relative;
  }
  ::unsetenv("HOME");
  EXPECT_EQ(default_database(), home / ".cache/kiln/kiln.db");
}

// As in containers that run under any user id. Where this is not root, a user cannot become
// another.
TEST_F(DefaultPath, IsNoneForAUserWithoutAHome) {
  TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms::all);
  EXPECT_TRUE(test::in_child([&] {
    if (::geteuid() != 0) return true;
    std::filesystem::current_path(dir.path());
    if (::setuid(3999999999u) != 0) return false;
    auto store = Store::open({.database = default_database()});
    return default_database().empty() && store && (*store)->path() == ":memory:";
  }));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Moved, EveryWriteAfterwardsSaysSo) {
  for (const bool replaced : {false, true}) {
    TempDir dir;
    auto store = open_store(dir / "kiln.db");
    const BestKey key = key_of(64, 96, 128);
    EXPECT_TRUE(store->measurements().put(key, kNow, timed(6, 1000)));
    if (replaced) {
      std::ofstream(dir / "other") << "x";
      std::filesystem::rename(dir / "other", dir / "kiln.db");
    } else {
      std::filesystem::remove(dir / "kiln.db");
    }
    const auto message = [](const Status& status) {
      return status ? std::string("done") : status.error().message;
    };
    const auto lost = AllOf(HasSubstr((dir / "kiln.db").string()),
                            HasSubstr("removed or replaced while open"), HasSubstr("is lost"));
    EXPECT_THAT(message(store->measurements().put(key, kNow, timed(7, 900))), lost);
    EXPECT_THAT(message(store->binaries().put(test::code_of(7))), lost);
    EXPECT_THAT(message(store->winners().make_winner(key, kNow, test::config_of(6))), lost);
    EXPECT_THAT(message(store->proofs().proved("b", key, test::config_of(6), "r")), lost);
    store_winner(*open_store(dir / "theirs.db"), key, 6);
    const auto imported = store->transfer().import_from(dir / "theirs.db");
    EXPECT_THAT(imported ? "done" : imported.error().message, lost);
  }
}

TEST(Moved, TuningEndsWithAWarning) {
  test::Opened engine;
  std::filesystem::remove(engine.dir / "kiln.db");
  const auto report = engine->tune(Gemm::row_major(33, 20, 17), {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->warnings,
              testing::Contains(AllOf(HasSubstr((engine.dir / "kiln.db").string()),
                                      HasSubstr("removed or replaced while open"))));
}

TEST(ReadOnlyMedia, WithALogCanBeReadExportedAndImported) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  const std::filesystem::path media = dir / "media";
  std::filesystem::create_directories(media);
  std::filesystem::create_directories(dir / "out");
  store_winner(*open_store(media / "kiln.db"), key, 6);  // left in WAL mode
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  ::chmod((media / "kiln.db").c_str(), 0444);
  ::chmod(media.c_str(), 0555);
  constexpr uid_t kUser = 1001;
  if (::geteuid() == 0) {  // who could write anywhere
    ASSERT_EQ(::chown((dir / "out").c_str(), kUser, kUser), 0);
  }
  EXPECT_TRUE(test::in_child([&] {
    if (::geteuid() == 0 && ::setuid(kUser) != 0) return false;
    auto store = open_store({}, {media / "kiln.db"});
    const Status exported = store->transfer().export_to(dir / "out/out.db");
    if (!exported) std::fprintf(stderr, "%s\n", exported.error().message.c_str());
    if (!exported) return false;
    const auto moved = open_store({}, {dir / "out/out.db"})->winners().best(key, kNow);
    auto importer = open_store({});
    const auto imported = importer->transfer().import_from(media / "kiln.db");
    if (!imported) std::fprintf(stderr, "%s\n", imported.error().message.c_str());
    return moved && moved->image == test::code_of(6).image && imported &&
           importer->winners().best(key, kNow)->image == test::code_of(6).image;
  }));
  ::chmod(media.c_str(), 0755);
}

TEST(Printable, IsValidUtf8WithoutControls) {
  EXPECT_EQ(printable("plain text,\n\ttwo lines; é € 𝄞"), "plain text,\n\ttwo lines; é € 𝄞");
  EXPECT_EQ(printable("\xff|\xc3|\xc3("), "\\xff|\\xc3|\\xc3(");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable("\xe0\x80\x80"), "\\xe0\\x80\\x80") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82") << "cut off";
  EXPECT_EQ(printable("\x1b[2J\r\x7f"), "\\x1b[2J\\x0d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J")
      << "an eight-bit escape sequence";
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable(""), "");
}

/// Whether text of a file came out fit to be shown, and came out at all.
void expect_shown(const std::string& text) {
  EXPECT_EQ(text, printable(text));
  EXPECT_THAT(text, HasSubstr("\\xff\\x1b[2J"));
}

TEST(Printable, IsWhatAFilesTextBecomesInMessages) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  const auto made = [&](const std::string& sql) {
    const std::filesystem::path file = dir / "kiln.db";
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
    store_winner(*open_store(file), key, 6);
    test::tamper(file, sql);
    return file;
  };
  const std::string bad = "CAST(x'ff1b5b324a' AS TEXT)";  // no UTF-8, then "clear the screen"
  const auto schema = Store::open(
      {.database = made("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET name = " + bad +
                        ", sql = 'CREATE ' || " + bad + " WHERE name = 'session'")});
  ASSERT_FALSE(schema);
  expect_shown(schema.error().message);

  const auto marked =
      open_store(made("UPDATE binary SET quarantined = " + bad))->maintenance().check(false);
  ASSERT_EQ(marked->problems.size(), 1u);
  expect_shown(marked->problems[0]);
  const auto config = open_store(made("UPDATE config SET text = " + bad + " WHERE id = 1"));
  ASSERT_EQ(config->maintenance().check(false)->problems.size(), 1u);
  expect_shown(config->maintenance().check(false)->problems[0]);

  auto rows =
      open_store(made(fmt::format("UPDATE measurement SET detail = {0} WHERE failure NOTNULL; "
                                  "UPDATE measurement SET policy = {0} WHERE winner = 1",
                                  bad)));
  const auto records = rows->winners().list();
  ASSERT_EQ(records->size(), 1u);
  expect_shown(records->front().key.policy);
  const auto known = rows->measurements().known(key, kNow);
  ASSERT_EQ(known.size(), 1u);
  expect_shown(known[0].failure().detail);
}

}  // namespace kiln::database_path_test
