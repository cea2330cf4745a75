#include "fleet/shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include "cache/layers/trust.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> cannot(const fs::path& path, std::string_view why) {
  return fail(ErrorCode::database, fmt::format("{}: {}", path.string(), why));
}

tl::unexpected<Error> is_no(const fs::path& path, mode_t mode, const char* wanted) {
  return cannot(path, fmt::format("it is {}, not {}", kind_of_file(mode), wanted));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  operator int() const { return fd_; }  // NOLINT: as the functions of POSIX take it

 private:
  int fd_;
};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return ::fsync(fd) == 0;
}

/// A file of its own name with this text, beside `file`.
Result<fs::path> written_beside(const fs::path& file, const std::string& text) {
  std::string name = file.string() + ".XXXXXX";
  const Descriptor fd(::mkostemp(name.data(), O_CLOEXEC));
  if (fd < 0) return cannot(file, ::strerror(errno));
  if (write_all(fd, text) && ::fchmod(fd, 0644) == 0) return fs::path(name);
  const int reason = errno;
  ::unlink(name.c_str());
  return cannot(file, ::strerror(reason));
}

}  // namespace

Result<std::string> read_shared(const fs::path& file, std::size_t most) {
  // Opening a FIFO would wait for somebody to write to it.
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (fd < 0 && errno == ELOOP) return is_no(file, S_IFLNK, "a regular file");
  if (fd < 0 || ::fstat(fd, &info) != 0) return cannot(file, ::strerror(errno));
  if (!S_ISREG(info.st_mode)) return is_no(file, info.st_mode, "a regular file");
  std::string text;
  std::array<char, 1 << 16> piece{};
  for (;;) {
    const ssize_t count = ::read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot(file, ::strerror(errno));
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
    if (text.size() > most) return cannot(file, fmt::format("larger than {} bytes", most));
  }
}

Status write_shared(const fs::path& file, const std::string& text) {
  const auto written = written_beside(file, text);
  if (!written) return tl::unexpected(written.error());
  if (::rename(written->c_str(), file.c_str()) == 0) return {};
  const int reason = errno;
  ::unlink(written->c_str());
  return cannot(file, ::strerror(reason));
}

Result<bool> create_shared(const fs::path& file, const std::string& text) {
  const auto written = written_beside(file, text);
  if (!written) return tl::unexpected(written.error());
  const bool named = ::link(written->c_str(), file.c_str()) == 0;
  const int reason = errno;
  ::unlink(written->c_str());
  if (named) return true;
  if (reason == EEXIST) return false;
  return cannot(file, ::strerror(reason));
}

Result<fs::path> empty_beside(const fs::path& file) { return written_beside(file, ""); }

Status make_shared_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0755) == 0) return {};
  const int reason = errno;
  struct stat info {};
  if (reason != EEXIST || ::lstat(path.c_str(), &info) != 0)
    return cannot(path, ::strerror(reason));
  if (!S_ISDIR(info.st_mode)) return is_no(path, info.st_mode, "a folder");
  return {};
}

Status not_for_everybody(const fs::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || (info.st_mode & S_IWOTH) == 0) return {};
  return fail(
      ErrorCode::bad_input,
      fmt::format("out = {}: mode = {:04o}: everybody may write it, and exchange what is in "
                  "it: chmod o-w, or another folder",
                  folder.string(), info.st_mode & 07777));
}

}  // namespace kiln
