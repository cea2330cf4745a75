// Who can have written a file: every rule of the walk from "/" to it.
#include "cache/layers/trust.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "cache/exchange/transfer.h"
#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/winners.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::trust_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t kUser = 1000, kStranger = 1001;

PathEntry folder(uid_t owner, mode_t mode, bool private_group = false) {
  return {.path = "/p", .owner = owner, .mode = S_IFDIR | mode, .private_group = private_group};
}

TEST(TrustRules, OfAFoldersOwner) {
  EXPECT_EQ(distrust_directory(folder(0, 0755), kUser), "");
  EXPECT_EQ(distrust_directory(folder(kUser, 0700), kUser), "");
  EXPECT_EQ(distrust_directory(folder(0, 0755), 0), "");
  EXPECT_THAT(distrust_directory(folder(kStranger, 0755), kUser),
              AllOf(HasSubstr("/p"), HasSubstr("owner = uid 1001")));
  EXPECT_NE(distrust_directory(folder(kStranger, 0700), 0), "") << "root trusts root";
  EXPECT_NE(distrust_directory(folder(kStranger, 01777), kUser), "")
      << "its owner may rename what is in it, sticky or not";
}

TEST(TrustRules, OfAFoldersMode) {
  for (const mode_t mode : {0777, 0757, 0775, 0772, 0720, 0702}) {
    EXPECT_THAT(distrust_directory(folder(kUser, mode), kUser),
                AllOf(HasSubstr("/p"), HasSubstr(fmt::format("mode = {:04o}", mode))));
    EXPECT_NE(distrust_directory(folder(0, mode), kUser), "") << "root's too";
  }
}

// In /tmp others can neither rename nor remove what is this user's.
TEST(TrustRules, AStickyFolderMayBeWritten) {
  for (const uid_t owner : {uid_t{0}, kUser})
    for (const mode_t mode : {01777, 01775, 01773}) {
      EXPECT_EQ(distrust_directory(folder(owner, mode), kUser), "");
      EXPECT_TRUE(is_shared(folder(owner, mode)));
    }
  EXPECT_FALSE(is_shared(folder(kUser, 01755)));
  EXPECT_FALSE(is_shared(folder(kUser, 01775, true))) << "its private group";
  EXPECT_FALSE(is_shared(folder(kUser, 0777))) << "not sticky: nothing there is safe";
}

TEST(TrustRules, APrivateGroupMayWriteAFolder) {
  EXPECT_EQ(distrust_directory(folder(kUser, 0775, true), kUser), "");
  EXPECT_NE(distrust_directory(folder(kUser, 0777, true), kUser), "") << "others too";
  EXPECT_NE(distrust_directory(folder(kStranger, 0775, true), kUser), "");
}

TEST(TrustRules, OfFiles) {
  const auto file = [](uid_t owner, mode_t mode, bool private_group = false) {
    return PathEntry{"/p/f", owner, S_IFREG | mode, private_group};
  };
  EXPECT_EQ(distrust_file(file(0, 0644), kUser), "");
  EXPECT_EQ(distrust_file(file(kUser, 0600), kUser), "");
  EXPECT_THAT(distrust_file(file(kStranger, 0600), kUser), HasSubstr("uid 1001"));
  for (const mode_t mode : {0666, 0664, 0646, 01666})
    EXPECT_THAT(distrust_file(file(kUser, mode), kUser), HasSubstr("/p/f: mode = "));
  EXPECT_NE(distrust_file(file(kUser, 0664, true), kUser), "") << "no exception for files";
}

// Whoever mounts a FUSE file system answers for every owner and mode in it.
TEST(TrustRules, OfFuse) {
  for (const mode_t kind : {S_IFDIR | 0755, S_IFREG | 0644}) {
    PathEntry entry{.path = "/p", .owner = 0, .mode = kind};
    const auto verdict = [&] {
      return S_ISDIR(kind) ? distrust_directory(entry, kUser) : distrust_file(entry, kUser);
    };
    EXPECT_EQ(verdict(), "");
    entry.mounted_by = kUser;
    EXPECT_EQ(verdict(), "");
    entry.mounted_by = kStranger;
    EXPECT_THAT(verdict(), AllOf(HasSubstr("/p"), HasSubstr("FUSE"), HasSubstr("uid 1001")));
    entry.mounted_by = kUnknownUser;
    EXPECT_NE(verdict(), "");
  }
}

TEST(TrustRules, WhoMountedAFuseFileSystem) {
  const auto user_of = [](int minor) {
    std::istringstream mounts(
        "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
        "36 22 0:51 / /tmp/a,user_id=0 rw,nosuid shared:1 - fuse.sshfs s rw,user_id=1001,"
        "group_id=1001,allow_other\n"
        "37 22 0:52 / /data rw - fuse.glusterfs h:/v rw,user_id=0,group_id=0\n"
        "38 22 0:53 / /odd rw - fuse.odd x rw\n");
    return fuse_user(mounts, makedev(0, static_cast<unsigned>(minor)));
  };
  EXPECT_EQ(user_of(51), 1001u);
  EXPECT_EQ(user_of(52), 0u);
  EXPECT_EQ(user_of(53), kUnknownUser);
  EXPECT_EQ(user_of(54), kUnknownUser) << "not listed";
}

TEST(TrustRules, APrivateGroupIsTheOwnersOnly) {
  const passwd* user = ::getpwnam("bin");  // a system user with a group of its name, everywhere
  ASSERT_NE(user, nullptr);
  const uid_t uid = user->pw_uid;
  const gid_t gid = user->pw_gid;
  EXPECT_TRUE(is_private_group(uid, gid));
  EXPECT_FALSE(is_private_group(uid, gid + 1)) << "not its primary group";
  EXPECT_FALSE(is_private_group(uid + 1, gid)) << "another user's";
  EXPECT_FALSE(is_private_group(0, 0)) << "shared by users of any id in some containers";
  EXPECT_FALSE(is_private_group(4000000000u, 4000000000u)) << "nobody by that id";
  user = ::getpwnam("nobody");
  ASSERT_NE(user, nullptr);
  EXPECT_FALSE(is_private_group(user->pw_uid, 4000000000u));
}

/// a/b/f in a folder of the test's own.
class Walk : public ::testing::Test {
 protected:
  Walk() {
    std::filesystem::create_directories(dir_ / "a/b");
    std::ofstream(file_) << "x";
    mode(dir_.path(), 0755);
    mode(dir_ / "a", 0755);
    mode(dir_ / "a/b", 0755);
    mode(file_, 0644);
  }
  static void mode(const std::filesystem::path& path, mode_t mode) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  std::string verdict() const {
    const auto walked = walk_to(file_);
    return walked ? walked->distrust : "error: " + walked.error().message;
  }

  TempDir dir_;
  const std::filesystem::path file_ = dir_ / "a/b/f";
};

TEST_F(Walk, FindsTheFileItself) {
  const auto walked = walk_to(file_);
  ASSERT_TRUE(walked) << walked.error().message;
  EXPECT_EQ(walked->distrust, "");
  EXPECT_EQ(walked->path, std::filesystem::canonical(file_));
  struct stat info {};
  ASSERT_EQ(::stat(file_.c_str(), &info), 0);
  EXPECT_EQ(walked->id, (FileId{info.st_dev, info.st_ino}));
  EXPECT_THAT(walk_to(dir_ / "none").error().message, HasSubstr((dir_ / "none").string()));
}

TEST_F(Walk, NamesTheFirstStepThatOthersMayChange) {
  mode(dir_ / "a", 0777);
  EXPECT_THAT(verdict(), HasSubstr((dir_ / "a").string() + ": mode = 0777"));
  mode(dir_ / "a/b", 0777);
  EXPECT_THAT(verdict(), HasSubstr((dir_ / "a").string() + ": mode = 0777"));
  mode(dir_ / "a", 01777);
  EXPECT_THAT(verdict(), HasSubstr((dir_ / "a/b").string() + ": mode = 0777"));
  mode(dir_ / "a/b", 0755);
  EXPECT_EQ(verdict(), "") << "sticky, above";
  mode(dir_ / "a/b", 01777);
  EXPECT_EQ(verdict(), "") << "sticky, its own";
  EXPECT_TRUE(walk_to(file_)->shared);
  mode(dir_ / "a/b", 0755);
  mode(file_, 0666);
  EXPECT_THAT(verdict(), HasSubstr(file_.string() + ": mode = 0666"));
}

TEST_F(Walk, LooksAtTheLogsBesideTheFileNotBesideALink) {
  for (const char* suffix : {"-wal", "-shm", "-journal"}) {
    const std::filesystem::path log = file_.string() + suffix;
    std::ofstream(log) << "x";
    mode(log, 0644);
    EXPECT_EQ(verdict(), "");
    mode(log, 0666);
    EXPECT_THAT(verdict(), HasSubstr(log.string() + ": mode = 0666"));
    std::filesystem::create_symlink(file_, dir_ / "link");
    EXPECT_THAT(walk_to(dir_ / "link")->distrust, HasSubstr(log.string()));
    std::filesystem::remove(dir_ / "link");
    std::filesystem::remove(log);
  }
}

TEST_F(Walk, FollowsALinkToWhereItLeads) {
  std::filesystem::create_directory(dir_ / "open");
  mode(dir_ / "open", 0777);
  std::filesystem::create_symlink(dir_ / "a/b", dir_ / "open/link");
  EXPECT_EQ(walk_to(dir_ / "open/link/f")->distrust, "") << "what lies there is this user's";
  std::filesystem::rename(file_, dir_ / "open/f");
  std::filesystem::create_symlink(dir_ / "open/f", file_);
  EXPECT_THAT(verdict(), HasSubstr((dir_ / "open").string() + ": mode = 0777"));
}

TEST_F(Walk, AnotherUserIsJudgedByItsOwnFolders) {
  // As another user would see this user's: root's are everybody's to trust, others' nobody's.
  const auto walked = walk_to(file_, kStranger);
  ASSERT_TRUE(walked);
  if (::geteuid() == 0)
    EXPECT_EQ(walked->distrust, "");
  else
    EXPECT_THAT(walked->distrust, HasSubstr(fmt::format("owner = uid {}", ::geteuid())));
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown((dir_ / "a").c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(verdict(), HasSubstr((dir_ / "a").string() + ": owner = uid 1001"));
  EXPECT_EQ(walk_to(file_, kStranger)->distrust, "");
  ASSERT_EQ(::chown((dir_ / "a").c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(file_.c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(verdict(), HasSubstr(file_.string() + ": owner = uid 1001"));
}

/// An access list that lets user 1001 write; as the kernel keeps it: version 2, then tag,
/// permissions and id of each entry.
std::string access_list_for_a_stranger() {
  struct Entry {
    std::uint16_t tag, permissions;
    std::uint32_t id;
  };
  constexpr std::uint32_t kNone = 0xffffffff;
  constexpr std::array kEntries = {Entry{0x01, 7, kNone}, Entry{0x02, 7, kStranger},
                                   Entry{0x04, 7, kNone}, Entry{0x10, 7, kNone},
                                   Entry{0x20, 5, kNone}};
  const std::uint32_t version = 2;
  std::string bytes(reinterpret_cast<const char*>(&version), sizeof version);
  return bytes.append(reinterpret_cast<const char*>(kEntries.data()), sizeof kEntries);
}

TEST_F(Walk, AFolderThatAGroupMayWriteIsJudgedByTheGroup) {
  mode(dir_ / "a", 0775);
  const bool own_group = is_private_group(::geteuid(), ::getegid());
  EXPECT_EQ(verdict().empty(), own_group) << verdict();
  uid_t owner = ::geteuid();
  if (owner == 0) {  // to a user with a group of its own
    const passwd* user = ::getpwnam("bin");
    owner = user->pw_uid;
    ASSERT_EQ(::chown((dir_ / "a").c_str(), user->pw_uid, user->pw_gid), 0);
    EXPECT_EQ(walk_to(file_, owner)->distrust, "");
    ASSERT_EQ(::chown((dir_ / "a").c_str(), user->pw_uid, user->pw_gid + 1), 0);
    EXPECT_THAT(walk_to(file_, owner)->distrust, HasSubstr("mode = 0775"));
    ASSERT_EQ(::chown((dir_ / "a").c_str(), user->pw_uid, user->pw_gid), 0);
  }
  const std::string list = access_list_for_a_stranger();
  const bool listed =
      ::setxattr((dir_ / "a").c_str(), "system.posix_acl_access", list.data(), list.size(), 0) == 0;
  ASSERT_TRUE(listed || errno == ENOTSUP) << std::strerror(errno);
  if (listed) {
    EXPECT_THAT(walk_to(file_, owner)->distrust, HasSubstr("mode = 0775"));
  }
}

TEST(Descriptors, OnlyThoseThatReadOrWriteCount) {
  TempDir dir;
  std::ofstream(dir / "f") << "x";
  const FileId id = walk_to(dir / "f")->id;
  EXPECT_FALSE(is_open_here(id));
  const int path_only = ::open((dir / "f").c_str(), O_PATH | O_CLOEXEC);
  EXPECT_FALSE(is_open_here(id));
  const int readable = ::open((dir / "f").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_TRUE(is_open_here(id));
  ::close(path_only);
  ::close(readable);
  EXPECT_FALSE(is_open_here(id));
}

// A database in a folder that others may write is read, but not run; one warning says why.
TEST(Trust, AFolderThatOthersMayWriteIsSaidOnceAndItsCodeLeftOut) {
  TempDir dir;
  const BestKey key = test::key_of(64, 96, 128);
  std::filesystem::create_directory(dir / "shared");
  test::store_winner(*test::open_store(dir / "shared/kiln.db"), key, 6);
  ASSERT_EQ(::chmod((dir / "shared").c_str(), 0777), 0);

  for (const bool shipped : {false, true}) {
    testing::internal::CaptureStderr();
    auto store = shipped ? test::open_store({}, {dir / "shared/kiln.db"})
                         : test::open_store(dir / "shared/kiln.db");
    const auto record = store->winners().best(key, test::kNow);
    ASSERT_TRUE(record);
    EXPECT_TRUE(record->image.empty());
    EXPECT_EQ(record->source, test::code_of(6).source);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr((dir / "shared").string() + ": mode = 0777"));
    EXPECT_THAT(said, HasSubstr("machine code is not loaded"));
    EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
  }
  auto own = test::open_store(dir / "own.db");
  EXPECT_FALSE(own->transfer().import_from(dir / "shared/kiln.db")->trusted);
  EXPECT_FALSE(own->binaries().of_source("source6", ""));
}

/// A database in a folder like /tmp.
class Sticky : public ::testing::Test {
 protected:
  Sticky() {
    std::filesystem::create_directory(dir_ / "tmp");
    EXPECT_EQ(::chmod((dir_ / "tmp").c_str(), 01777), 0);
  }
  std::string warned(const std::function<void()>& body) {
    testing::internal::CaptureStderr();
    body();
    return testing::internal::GetCapturedStderr();
  }
  std::size_t image_bytes(Store& store) {
    return store.winners().best(key_, test::kNow)->image.size();
  }
  static bool exists(const std::string& file) { return std::filesystem::exists(file); }

  TempDir dir_;
  const std::string file_ = dir_ / "tmp/kiln.db";
  const BestKey key_ = test::key_of(64, 96, 128);
};

TEST_F(Sticky, HoldsTrustedFilesOfThisUser) {
  for (int time = 0; time < 3; ++time)  // made, opened, opened again
    EXPECT_EQ(warned([&] {
                auto store = test::open_store(file_);
                test::store_winner(*store, key_, 6);
                EXPECT_TRUE(store->maintenance().stats()->at(0).trusted) << time;
                EXPECT_GT(image_bytes(*store), 0u);
              }),
              "");
  for (const char* suffix : kLogSuffixes)
    EXPECT_TRUE(exists(file_ + suffix)) << suffix << ": else others could make it";
  EXPECT_TRUE(test::open_store({}, {file_})->winners().best(key_, test::kNow)->image.size() > 0)
      << "shipped";
  EXPECT_TRUE(test::open_store(dir_ / "own.db")->transfer().import_from(file_)->trusted);
}

TEST_F(Sticky, AFileWithoutLogsIsReadWithoutAny) {
  { test::store_winner(*test::open_store(dir_ / "made.db"), key_, 6); }
  std::filesystem::copy_file(dir_ / "made.db", file_);
  auto store = test::open_store({}, {file_});
  EXPECT_GT(image_bytes(*store), 0u);
  for (const char* suffix : kLogSuffixes) EXPECT_FALSE(exists(file_ + suffix)) << suffix;
}

TEST_F(Sticky, AStrangersLogIsNotReplayed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's file";
  { test::store_winner(*test::open_store(dir_ / "made.db"), key_, 6); }
  for (const char* suffix : kLogSuffixes) {
    std::filesystem::copy_file(dir_ / "made.db", file_);
    const std::string log = file_ + suffix;
    std::ofstream(log) << std::string(5000, 'x');
    ASSERT_EQ(::chown(log.c_str(), kStranger, kStranger), 0);
    const std::string said = warned([&] {
      auto store = test::open_store(file_);
      EXPECT_FALSE(store->maintenance().stats()->at(0).trusted);
      EXPECT_FALSE(store->maintenance().stats()->at(0).writable);
      EXPECT_EQ(image_bytes(*store), 0u);
    });
    EXPECT_THAT(said, AllOf(HasSubstr(log), HasSubstr("uid 1001"))) << suffix;
    EXPECT_EQ(std::filesystem::file_size(log), 5000u) << "left as it was";
    EXPECT_EQ(std::filesystem::file_size(file_), std::filesystem::file_size(dir_ / "made.db"));
    for (const char* each : kLogSuffixes) std::filesystem::remove(file_ + each);
    std::filesystem::remove(file_);
  }
}

}  // namespace kiln::trust_test
