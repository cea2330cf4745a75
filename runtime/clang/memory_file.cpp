#include "runtime/clang/memory_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace kiln::clang_side {
namespace {

std::string path_of(int fd) { return std::string("/proc/self/fd/").append(std::to_string(fd)); }

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void close_if_open(int fd) {
  if (fd >= 0) ::close(fd);
}

}  // namespace

InputFile::InputFile(std::string_view bytes)
    : fd_(::memfd_create("kiln-object", MFD_CLOEXEC)), good_(fd_ >= 0 && write_all(fd_, bytes)) {}

InputFile::~InputFile() { close_if_open(fd_); }

std::string InputFile::path() const { return path_of(fd_); }

OutputFile::OutputFile() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  read_ = ends[0];
  write_ = ends[1];
  stop_ = ::eventfd(0, EFD_CLOEXEC);
  // Reads must not block: what poll() announced is all that the reader may wait for.
  good_ = stop_ >= 0 && ::fcntl(read_, F_SETFL, O_NONBLOCK) == 0;
  if (good_) reader_ = std::thread([this] { collect(); });
}

OutputFile::~OutputFile() {
  finish();
  for (const int fd : {read_, write_, stop_}) close_if_open(fd);
}

std::string OutputFile::path() const { return path_of(write_); }

std::vector<char> OutputFile::finish() {
  if (reader_.joinable()) {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(stop_, &one, sizeof(one)));  // an eventfd at zero always takes it
    reader_.join();
  }
  return std::move(bytes_);
}

void OutputFile::collect() {
  for (bool stopped = false; !stopped;) {
    pollfd events[] = {{read_, POLLIN, 0}, {stop_, POLLIN, 0}};
    if (::poll(events, 2, -1) < 0 && errno != EINTR) return;
    // Asked to stop after the last write, so one more drain sees everything.
    stopped = (events[1].revents & POLLIN) != 0;
    char chunk[1 << 16];
    for (;;) {
      const ssize_t n = ::read(read_, chunk, sizeof(chunk));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      bytes_.insert(bytes_.end(), chunk, chunk + n);
    }
  }
}

}  // namespace kiln::clang_side
