#include "runtime/memory_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kiln {
namespace {

// Kernels 6.3 and later may deny execution of a memfd that does not ask for it; older ones do not
// know the flag. Older headers lack the name.
constexpr unsigned kMemfdExec = 0x0010U;

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

Result<Fd> memory_file(const std::string& name, std::span<const std::byte> bytes) {
  Fd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | kMemfdExec));
  if (fd.get() < 0 && errno == EINVAL) fd = Fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (fd.get() < 0)
    return fail(ErrorCode::device, fmt::format("memfd_create: {}", std::strerror(errno)));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return fail(ErrorCode::device,
                  fmt::format("memfd write of {} bytes: {}", bytes.size(), std::strerror(errno)));
    done += static_cast<std::size_t>(n);
  }
  return fd;
}

}  // namespace kiln
