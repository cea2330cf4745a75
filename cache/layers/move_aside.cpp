#include "cache/layers/move_aside.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "runtime/memory_file.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

/// The file last: without it SQLite would replay its logs into the one that is made next.
constexpr std::array kParts{"-wal", "-journal", "-shm", ""};

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

bool is(const fs::path& file, const FileId& id) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 && FileId{info.st_dev, info.st_ino} == id;
}

/// 0 or errno. Never replaces a file, but where the file system cannot say so.
int renamed(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

std::string free_name(const fs::path& file, const std::string& date) {
  const std::string first = fmt::format("{}.damaged-{}", file.string(), date);
  std::string name = first;
  const auto taken = [&](const char* part) { return exists(name + part); };
  for (int i = 2; std::ranges::any_of(kParts, taken); ++i) name = fmt::format("{}-{}", first, i);
  return name;
}

}  // namespace

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::gmtime_r(&now, &fields);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &fields);
  return text;
}

Result<fs::path> move_aside(const fs::path& file, const FileId& id, const std::string& date) {
  const auto cannot = [&](const std::string& what, int reason) {
    return fail(ErrorCode::database, fmt::format("database {}: cannot rename {}: {}", file.string(),
                                                 what, std::strerror(reason)));
  };
  // One process at a time: the second would move the new file of the first.
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const Fd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.get() < 0 || ::flock(lock.get(), LOCK_EX) != 0) return cannot(folder.string(), errno);
  if (!is(file, id)) return fs::path();
  const std::string name = free_name(file, date);
  std::error_code ignored;
  const bool link = fs::is_symlink(file, ignored);  // its logs lie beside what it names
  for (const char* part : kParts) {
    const std::string from = file.string() + part;
    if ((link && *part != '\0') || !exists(from)) continue;
    if (const int reason = renamed(from, name + part); reason != 0) return cannot(from, reason);
  }
  return fs::path(name);
}

}  // namespace kiln
