#include "cache/layers/trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

namespace kiln {
namespace {

/// A place in the file system that is not open for reading or writing (O_PATH). Closing an ordinary
/// descriptor of a database drops all POSIX locks of this process on it, SQLite's included.
class Place {
 public:
  explicit Place(int fd) : fd_(fd) {}
  Place(Place&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Place& operator=(Place&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Place() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  /// -1 and errno where there is no such name. A link is opened as such, never followed.
  Place below(const char* name) const {
    return Place(::openat(fd_, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }

 private:
  int fd_;
};

/// Empty when the entry is root's or `user`'s.
std::string distrust_owner(const PathEntry& entry, uid_t user) {
  if (entry.mounted_by != 0 && entry.mounted_by != user)
    return fmt::format("{}: on a FUSE file system of uid {}, neither this user nor root",
                       entry.path, entry.mounted_by);
  if (entry.owner != 0 && entry.owner != user)
    return fmt::format("{}: owner = uid {}, neither this user nor root", entry.path, entry.owner);
  return {};
}

std::string mode_text(const PathEntry& entry) {
  return fmt::format("{}: mode = {:04o}: others may write it", entry.path, entry.mode & 07777);
}

/// With an access list the group's bits are the list's mask: others than the group may write.
bool has_access_list(const Place& place) {
  const std::string link = fmt::format("/proc/self/fd/{}", place.fd());
  if (::getxattr(link.c_str(), "system.posix_acl_access", nullptr, 0) >= 0) return true;
  return errno != ENODATA && errno != ENOTSUP;
}

/// Root for every file system but FUSE.
uid_t mounter_of(const Place& place, dev_t device) {
  constexpr unsigned kFuse = 0x65735546;
  struct statfs fs {};
  if (::fstatfs(place.fd(), &fs) == 0 && static_cast<unsigned>(fs.f_type) != kFuse) return 0;
  std::ifstream mounts("/proc/self/mountinfo");
  return fuse_user(mounts, device);
}

PathEntry entry_of(const Place& place, const struct stat& info, std::string path) {
  PathEntry entry{.path = std::move(path), .owner = info.st_uid, .mode = info.st_mode};
  entry.mounted_by = mounter_of(place, info.st_dev);
  entry.private_group = (info.st_mode & S_IWGRP) != 0 &&
                        is_private_group(info.st_uid, info.st_gid) && !has_access_list(place);
  return entry;
}

/// The first reason found on the way to the file; `walked.id` is set when the file was reached.
Status walk(WalkedFile& walked, uid_t user) {
  const auto distrusted = [&](std::string why) {
    if (walked.distrust.empty()) walked.distrust = std::move(why);
  };
  const std::vector<std::filesystem::path> names(walked.path.begin(), walked.path.end());
  std::filesystem::path so_far = "/";
  Place place(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  for (std::size_t i = 1; i < names.size(); ++i) {
    const bool last = i + 1 == names.size();
    if (place.fd() < 0 || ::fstat(place.fd(), &info) != 0)
      return fail(ErrorCode::database, fmt::format("database {}: {}: {}", walked.path.string(),
                                                   so_far.string(), std::strerror(errno)));
    if (!S_ISDIR(info.st_mode))
      return fail(ErrorCode::database,
                  fmt::format("database {}: {} became {} while it was checked",
                              walked.path.string(), so_far.string(), kind_of_file(info.st_mode)));
    const PathEntry folder = entry_of(place, info, so_far.string());
    distrusted(distrust_directory(folder, user));
    if (last) walked.shared = is_shared(folder);
    so_far /= names[i];
    if (!last) place = place.below(names[i].c_str());
  }
  // SQLite replays the logs that lie beside a file, whoever put them there.
  const auto look_at = [&](const char* suffix, FileId& id) -> Status {
    const std::string path = walked.path.string() + suffix;
    const Place part = place.below((names.back().string() + suffix).c_str());
    if (part.fd() < 0 && *suffix != '\0' && errno == ENOENT) return {};
    if (part.fd() < 0 || ::fstat(part.fd(), &info) != 0)
      return fail(ErrorCode::database, fmt::format("database {}: {}", path, std::strerror(errno)));
    // Opening a FIFO waits for somebody to write to it; opening a device may do anything.
    if (!S_ISREG(info.st_mode))
      return fail(ErrorCode::database, fmt::format("database {}: it is {}, not a regular file",
                                                   path, kind_of_file(info.st_mode)));
    id = {info.st_dev, info.st_ino};
    std::string why = distrust_file(entry_of(part, info, path), user);
    walked.foreign_log |= *suffix != '\0' && !why.empty();
    distrusted(std::move(why));
    return {};
  };
  if (Status file = look_at("", walked.id); !file) return file;
  for (std::size_t i = 0; i < kLogSuffixes.size(); ++i)
    if (Status log = look_at(kLogSuffixes[i], walked.logs[i]); !log) return log;
  return {};
}

}  // namespace

std::string_view kind_of_file(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "something else";
}

bool is_shared(const PathEntry& directory) {
  const bool group_writes = (directory.mode & S_IWGRP) != 0 && !directory.private_group;
  return (directory.mode & S_ISVTX) != 0 && ((directory.mode & S_IWOTH) != 0 || group_writes);
}

std::string distrust_directory(const PathEntry& directory, uid_t user) {
  if (std::string why = distrust_owner(directory, user); !why.empty()) return why;
  if ((directory.mode & S_ISVTX) != 0) return {};
  if ((directory.mode & S_IWOTH) != 0) return mode_text(directory);
  if ((directory.mode & S_IWGRP) != 0 && !directory.private_group) return mode_text(directory);
  return {};
}

std::string distrust_file(const PathEntry& file, uid_t user) {
  if (std::string why = distrust_owner(file, user); !why.empty()) return why;
  if ((file.mode & (S_IWGRP | S_IWOTH)) != 0) return mode_text(file);
  return {};
}

uid_t fuse_user(std::istream& mountinfo, dev_t device) {
  // "36 35 0:51 / /mnt rw,nosuid shared:1 - fuse.sshfs source rw,user_id=1000,group_id=1000"
  const std::string number = fmt::format("{}:{}", major(device), minor(device));
  constexpr std::string_view kUser = ",user_id=";
  for (std::string line; std::getline(mountinfo, line);) {
    std::istringstream words(line);
    std::string id, parent, mounted;
    words >> id >> parent >> mounted;
    const std::size_t user = line.rfind(kUser);
    if (mounted != number || user == line.npos) continue;
    uid_t uid = kUnknownUser;
    const char* first = line.data() + user + kUser.size();
    if (std::from_chars(first, line.data() + line.size(), uid).ec == std::errc{}) return uid;
  }
  return kUnknownUser;
}

bool is_private_group(uid_t owner, gid_t group) {
  if (group == 0) return false;
  std::vector<char> buffer(1 << 16), more(1 << 16);
  passwd user{}, *found_user = nullptr;
  ::group named{}, *found_group = nullptr;
  if (::getpwuid_r(owner, &user, buffer.data(), buffer.size(), &found_user) != 0 ||
      found_user == nullptr || user.pw_gid != group)
    return false;
  if (::getgrgid_r(group, &named, more.data(), more.size(), &found_group) != 0 ||
      found_group == nullptr || std::strcmp(named.gr_name, user.pw_name) != 0)
    return false;
  for (char** member = named.gr_mem; *member != nullptr; ++member)
    if (std::strcmp(*member, user.pw_name) != 0) return false;
  return true;
}

Result<WalkedFile> walk_to(const std::filesystem::path& file, uid_t user) {
  std::error_code error;
  WalkedFile walked{.path = std::filesystem::canonical(file, error), .id = {}, .distrust = {}};
  if (error)
    return fail(ErrorCode::database,
                fmt::format("database {}: {}", file.string(), error.message()));
  if (walked.path == walked.path.root_path())
    return fail(ErrorCode::database,
                fmt::format("database {}: it is a directory, not a regular file", file.string()));
  if (Status done = walk(walked, user); !done) return tl::unexpected(done.error());
  return walked;
}

Result<WalkedFile> walk_to(const std::filesystem::path& file) { return walk_to(file, ::geteuid()); }

bool is_open_here(const FileId& id) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return true;
  while (const dirent* entry = ::readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);  // "." and ".." give 0: checked twice, no harm
    struct stat info {};
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_PATH) != 0 || ::fstat(fd, &info) != 0) continue;
    if (FileId{info.st_dev, info.st_ino} == id) return true;
  }
  return false;
}

namespace {

tl::unexpected<Error> cannot_create(const std::filesystem::path& file,
                                    const std::filesystem::path& part, int reason) {
  return fail(ErrorCode::database, fmt::format("database {}: cannot create {}: {}", file.string(),
                                               part.string(), std::strerror(reason)));
}

}  // namespace

Status make_folders_of(const std::filesystem::path& file) {
  std::filesystem::path so_far;
  for (const auto& name : file.parent_path()) {
    so_far /= name;
    if (::mkdir(so_far.c_str(), 0755) == 0) continue;
    // A read-only parent says so even where the folder is there.
    const int reason = errno;
    std::error_code ignored;
    if (!std::filesystem::is_directory(so_far, ignored)) return cannot_create(file, so_far, reason);
  }
  return {};
}

Status claim_logs(const WalkedFile& walked) {
  for (const char* suffix : kLogSuffixes) {
    const std::string log = walked.path.string() + suffix;
    const int fd = ::open(log.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0644);
    if (fd >= 0)
      ::close(fd);  // just made: no lock of this process is on it
    else if (errno != EEXIST)
      return cannot_create(walked.path, log, errno);
  }
  return {};
}

Status make_file(const std::filesystem::path& file) {
  // O_EXCL: an existing file is never opened, so closing this descriptor drops nobody's locks.
  const int fd = ::open(file.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
  if (fd < 0) return cannot_create(file, file, errno);
  ::close(fd);
  return {};
}

}  // namespace kiln
