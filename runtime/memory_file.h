// Files that lie in memory alone, and the descriptors that own them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "kiln/error.hpp"

namespace kiln {

/// Owner of a file descriptor.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A file of memory holding `bytes`, which may be run as code; `name` shows in the process's map.
/// Errors: device.
Result<Fd> memory_file(const std::string& name, std::span<const std::byte> bytes);

}  // namespace kiln
