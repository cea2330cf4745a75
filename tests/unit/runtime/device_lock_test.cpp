// One tuner a device, whoever it is: the lock file, its place, and what others may have put there.
#include "tuner/measure/device_lock.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "support/child.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace kiln::device_lock_test {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kPatience = 24h;  // where the lock comes at once, or when another lets go

/// A device that no other test on this machine tunes.
std::string own_device(const std::string& name) { return name + std::to_string(::getpid()); }

/// Whether a child of this environment gets the lock at once; `user` 0 = as it is.
bool child_gets(const std::string& device, const std::string& runtime_dir, uid_t user = 0) {
  return test::in_child([&] {
    ::setenv("XDG_RUNTIME_DIR", runtime_dir.c_str(), 1);
    if (user != 0 && (::setgid(user) != 0 || ::setuid(user) != 0)) std::abort();
    return DeviceLock::acquire(device, 1ms).has_value();
  });
}

TEST(DeviceLock, IsHeldByOneAndNamesItsHolder) {
  TempDir dir;
  ::setenv("KILN_LOCK_DIR", dir.path().c_str(), 1);
  {
    auto first = DeviceLock::acquire("cpu", kPatience);
    ASSERT_TRUE(first) << first.error().message;
    std::string message;
    const auto second =
        DeviceLock::acquire("cpu", 120ms, [&](const std::string& m) { message = m; });
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::device);
    const std::string holder = "pid " + std::to_string(::getpid());
    EXPECT_THAT(second.error().message, HasSubstr(holder));
    EXPECT_THAT(message, HasSubstr(holder));
    EXPECT_TRUE(DeviceLock::acquire("cuda:0", kPatience)) << "another device";
  }
  EXPECT_TRUE(DeviceLock::acquire("cpu", kPatience)) << "released";
  ::unsetenv("KILN_LOCK_DIR");
}

TEST(DeviceLock, IsOneForAllSessionsAndUsersOfTheMachine) {
  ::unsetenv("KILN_LOCK_DIR");
  const std::string device = own_device("sessions");
  TempDir one, two;
  ::setenv("XDG_RUNTIME_DIR", one.path().c_str(), 1);
  const auto path = DeviceLock::path_of(device);
  {
    const auto held = DeviceLock::acquire(device, kPatience);
    ASSERT_TRUE(held) << held.error().message;
    EXPECT_FALSE(child_gets(device, two.path().string())) << "another session";
    if (::geteuid() == 0) {
      EXPECT_FALSE(child_gets(device, two.path().string(), 1001));
    }
  }
  EXPECT_TRUE(child_gets(device, two.path().string()));
  // Nobody but its maker could remove it, and it can be locked by all.
  if (::geteuid() == 0) {
    EXPECT_TRUE(child_gets(device, two.path().string(), 1001));
  }
  std::filesystem::remove(path);
}

// Its maker's umask must not keep others from opening it.
TEST(DeviceLock, AFileMadeUnderAnyUmaskLocksForAll) {
  ::unsetenv("KILN_LOCK_DIR");
  const std::string device = own_device("umask");
  const uid_t other = ::geteuid() == 0 ? 1001 : 0;  // another user where this one may become it
  const auto old = ::umask(077);
  EXPECT_TRUE(child_gets(device, "/nowhere", other));
  ::umask(old);
  struct stat info {};
  ASSERT_EQ(::stat(DeviceLock::path_of(device).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0444u);
  const auto held = DeviceLock::acquire(device, kPatience);
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_FALSE(child_gets(device, "/nowhere", other));
  std::filesystem::remove(DeviceLock::path_of(device));
}

TEST(DeviceLock, TakesNothingButARegularFileOfThatName) {
  TempDir dir;
  ::setenv("KILN_LOCK_DIR", dir.path().c_str(), 1);
  std::ofstream(dir / "precious") << "text";
  std::filesystem::create_symlink(dir / "precious", dir / "kiln-link.lock");
  ASSERT_EQ(::mkfifo((dir / "kiln-fifo.lock").c_str(), 0666), 0);
  std::filesystem::create_directory(dir / "kiln-folder.lock");
  for (const char* device : {"link", "fifo", "folder"}) {
    const auto lock = DeviceLock::acquire(device, kPatience);
    ASSERT_FALSE(lock) << device;
    EXPECT_EQ(lock.error().code, ErrorCode::device);
    EXPECT_THAT(lock.error().message, HasSubstr(std::string("kiln-") + device + ".lock"));
    EXPECT_THAT(lock.error().message, HasSubstr("uid " + std::to_string(::geteuid())));
  }
  ::setenv("KILN_LOCK_DIR", (dir / "absent").c_str(), 1);
  EXPECT_THAT(DeviceLock::acquire("cpu", kPatience).error().message, HasSubstr("absent"));
  ::unsetenv("KILN_LOCK_DIR");
}

TEST(DeviceLock, WritesNothingToAFileThatOthersMade) {
  TempDir dir;
  ::setenv("KILN_LOCK_DIR", dir.path().c_str(), 1);
  std::ofstream(dir / "kiln-cpu.lock") << "theirs \033[2J";
  {
    const auto held = DeviceLock::acquire("cpu", kPatience);
    ASSERT_TRUE(held) << held.error().message;
    const auto second = DeviceLock::acquire("cpu", 1ms);
    EXPECT_THAT(second.error().message, testing::Not(HasSubstr("theirs")));
  }
  std::string text;
  std::getline(std::ifstream(dir / "kiln-cpu.lock"), text);
  EXPECT_EQ(text, "theirs \033[2J");
  ::unsetenv("KILN_LOCK_DIR");
}

// The owner of a lock file may remove it while others hold or wait for it.
TEST(DeviceLock, IsThatOfTheFileWithTheName) {
  TempDir dir;
  ::setenv("KILN_LOCK_DIR", dir.path().c_str(), 1);
  const auto path = DeviceLock::path_of("cpu");
  std::optional<Result<DeviceLock>> first(DeviceLock::acquire("cpu", kPatience));
  ASSERT_TRUE(*first);
  const auto waited = DeviceLock::acquire("cpu", kPatience, [&](const std::string&) {
    std::filesystem::remove(path);
    std::ofstream(path) << "";
    first.reset();
  });
  ASSERT_TRUE(waited) << waited.error().message;
  EXPECT_FALSE(DeviceLock::acquire("cpu", 1ms)) << "the file of that name must be the locked one";
  ::unsetenv("KILN_LOCK_DIR");
}

TEST(LockName, IsTheDevicesAndNotTheSessions) {
  EXPECT_EQ(lock_name(Vendor::cpu, 0), "cpu");
  EXPECT_THAT(lock_name(Vendor::nvidia, 7), testing::StartsWith("cuda-"));
#ifdef KILN_HAS_FAKE_HIP
  // Found by its soname from now on.
  ASSERT_NE(::dlopen(test::fake_hip_path().c_str(), RTLD_NOW | RTLD_LOCAL), nullptr);
  EXPECT_EQ(lock_name(Vendor::amd, 0), "hip-0000:0c:00.0");
#endif
}

}  // namespace kiln::device_lock_test
