#include "tuner/device_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

namespace kiln {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(50);

std::string own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string command{std::istreambuf_iterator<char>(file), {}};
  std::replace(command.begin(), command.end(), '\0', ' ');
  return command.substr(0, 200);
}

// An existing file is opened without O_CREAT: in a sticky directory the kernel refuses O_CREAT on a
// file of another user's, though it may be locked.
int open_lock_file(const std::filesystem::path& path) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  int fd = open(path.c_str(), flags);
  if (fd >= 0 || errno != ENOENT) return fd;
  fd = open(path.c_str(), flags | O_CREAT, 0666);
  if (fd >= 0) fchmod(fd, 0666);  // whatever the umask: under /tmp others' tuners wait here too
  return fd;
}

std::string holder_of(int fd) {
  char text[256] = {};
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "an unnamed process";
}

void name_holder(int fd) {
  const std::string text = fmt::format("pid {} ({})", getpid(), own_command());
  // The name only serves a message: a full disk must not stop the tuning.
  if (ftruncate(fd, 0) == 0) (void)!pwrite(fd, text.data(), text.size(), 0);
}

}  // namespace

std::filesystem::path DeviceLock::path_of(std::string_view device) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string file = fmt::format("kiln-{}.lock", device);
  std::replace(file.begin(), file.end(), '/', '_');
  return std::filesystem::path(runtime && *runtime ? runtime : "/tmp") / file;
}

Result<DeviceLock> DeviceLock::acquire(std::string_view device,
                                       std::chrono::duration<double> patience,
                                       const std::function<void(const std::string&)>& on_wait,
                                       const std::function<bool()>& cancelled) {
  const auto path = path_of(device);
  const int fd = open_lock_file(path);
  if (fd < 0)
    return fail(ErrorCode::device, fmt::format("lock file {} for device {}: {}", path.string(),
                                               device, strerror(errno)));
  DeviceLock lock(fd);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool told = false;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return fail(ErrorCode::device, fmt::format("flock({}): {}", path.string(), strerror(errno)));
    if (!told && on_wait)
      on_wait(fmt::format("device {} is being tuned by {}; waiting", device, holder_of(fd)));
    told = true;
    if (std::chrono::steady_clock::now() >= deadline)
      return fail(ErrorCode::device,
                  fmt::format("device {} is still being tuned by {} after {:.1f} s ({})", device,
                              holder_of(fd), patience.count(), path.string()));
    if (cancelled && cancelled())
      return fail(ErrorCode::device, fmt::format("cancelled while device {} was being tuned by {}",
                                                 device, holder_of(fd)));
    std::this_thread::sleep_for(kPollInterval);
  }
  name_holder(fd);
  return lock;
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
