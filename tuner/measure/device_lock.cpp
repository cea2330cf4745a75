#include "tuner/measure/device_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include "runtime/backend.h"
#include "runtime/env.h"

namespace kiln {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(50);

tl::unexpected<Error> cannot(const std::filesystem::path& path, std::string_view why) {
  return fail(ErrorCode::device, fmt::format("lock file {}: {}", path.string(), why));
}

/// A folder where every user may make files and none may remove another's: the same answer for all
/// users of a machine.
bool is_for_all(const char* folder) {
  struct stat info {};
  struct statvfs mount {};
  constexpr mode_t kAll = S_ISVTX | S_IRWXU | S_IRWXG | S_IRWXO;
  return ::stat(folder, &info) == 0 && S_ISDIR(info.st_mode) && (info.st_mode & kAll) == kAll &&
         ::statvfs(folder, &mount) == 0 && (mount.f_flag & ST_RDONLY) == 0;
}

/// Makes the file where it is absent: readable by all and writable by none, whatever the umask. It
/// appears with its final mode, because others open it the moment it has its name.
Status make(const std::filesystem::path& path) {
  std::string partial = path.string() + ".XXXXXX";
  const int fd = ::mkostemp(partial.data(), O_CLOEXEC);
  if (fd < 0) return cannot(path, ::strerror(errno));
  const bool named = ::fchmod(fd, 0444) == 0 && ::link(partial.c_str(), path.c_str()) == 0;
  const int reason = errno;
  ::unlink(partial.c_str());
  ::close(fd);
  if (!named && reason != EEXIST) return cannot(path, ::strerror(reason));
  return {};
}

/// A descriptor of the lock file. O_NONBLOCK: opening a FIFO would wait for a writer.
Result<int> open_lock_file(const std::filesystem::path& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = ::open(path.c_str(), kFlags);
  if (fd < 0 && errno == ENOENT) {
    if (Status made = make(path); !made) return tl::unexpected(made.error());
    fd = ::open(path.c_str(), kFlags);
  }
  const int reason = errno;
  struct stat info {};
  if (fd < 0) {
    if (::lstat(path.c_str(), &info) != 0) return cannot(path, ::strerror(reason));
    return cannot(path, fmt::format("{} (mode {:04o}, owner uid {}); it must be removed by that "
                                    "user or root",
                                    ::strerror(reason), info.st_mode & 07777, info.st_uid));
  }
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  ::close(fd);
  return cannot(path, fmt::format("not a regular file (owner uid {}); it must be removed by that "
                                  "user or root",
                                  info.st_uid));
}

/// Whether the path still names the open file: its owner may have removed it, and then others would
/// lock another one.
bool is_named(int fd, const std::filesystem::path& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// The command line of a process, without anything that a terminal would obey.
std::string command_of(long pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  std::string command{std::istreambuf_iterator<char>(file), {}};
  std::replace_if(
      command.begin(), command.end(), [](char c) { return c < ' ' || c > '~'; }, ' ');
  return command.substr(0, 200);
}

/// Who holds the lock, from the system's list of locks: what the file says anybody could write.
std::string holder_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return "another process";
  const std::string file =
      fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev), info.st_ino);
  // "1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF"
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, named;
    long pid = 0;
    words >> number >> kind >> advisory >> access >> pid >> named;
    if (words && kind == "FLOCK" && named == file && pid > 0)
      return fmt::format("pid {} ({})", pid, command_of(pid));
  }
  return "another process";
}

}  // namespace

std::string lock_name(Vendor vendor, int index) {
  const Backend& backend = backend_of(vendor);
  if (backend.host()) return std::string(backend.name);
  const auto gpu = backend.open(index);
  const bool known = gpu && !(*gpu)->bus_id().empty();
  return fmt::format("{}-{}", backend.name, known ? (*gpu)->bus_id() : std::to_string(index));
}

std::filesystem::path DeviceLock::path_of(std::string_view device) {
  const char* named = env("KILN_LOCK_DIR");
  std::string file = fmt::format("kiln-{}.lock", device);
  std::replace(file.begin(), file.end(), '/', '_');
  if (named != nullptr && *named != '\0') return std::filesystem::path(named) / file;
  return std::filesystem::path(is_for_all("/dev/shm") ? "/dev/shm" : "/tmp") / file;
}

Result<DeviceLock> DeviceLock::acquire(std::string_view device,
                                       std::chrono::duration<double> patience,
                                       const std::function<void(const std::string&)>& on_wait,
                                       const std::function<bool()>& cancelled) {
  const auto path = path_of(device);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool told = false;
  for (;;) {
    const auto fd = open_lock_file(path);
    if (!fd) return tl::unexpected(fd.error());
    DeviceLock lock(*fd);
    const bool locked = ::flock(*fd, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK && errno != EINTR) return cannot(path, ::strerror(errno));
    if (locked && is_named(*fd, path)) return lock;
    if (!told && on_wait)
      on_wait(fmt::format("device {} is being tuned by {}; waiting", device, holder_of(*fd)));
    told = true;
    if (std::chrono::steady_clock::now() >= deadline)
      return fail(ErrorCode::device,
                  fmt::format("device {} is still being tuned by {} after {:.1f} s ({})", device,
                              holder_of(*fd), patience.count(), path.string()));
    if (cancelled && cancelled())
      return fail(ErrorCode::device, fmt::format("cancelled while device {} was being tuned by {}",
                                                 device, holder_of(*fd)));
    std::this_thread::sleep_for(kPollInterval);
  }
}

DeviceLock::DeviceLock(DeviceLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DeviceLock& DeviceLock::operator=(DeviceLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DeviceLock::~DeviceLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace kiln
