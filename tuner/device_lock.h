// One tuner a device: a lock file that names its holder. Knows nothing of tuning.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "kiln/error.hpp"

namespace kiln {

/// Held until destroyed; the system releases it when the process dies. Move-only.
class DeviceLock {
 public:
  /// Waits up to `patience` for `device` ("cpu", "cuda:0"); `on_wait` is told once who holds it.
  /// Errors: device (held for longer, naming the holder; cancelled; the file cannot be made, naming
  /// it).
  static Result<DeviceLock> acquire(std::string_view device, std::chrono::duration<double> patience,
                                    const std::function<void(const std::string&)>& on_wait = {},
                                    const std::function<bool()>& cancelled = {});
  DeviceLock(DeviceLock&& other) noexcept;
  DeviceLock& operator=(DeviceLock&& other) noexcept;
  ~DeviceLock();

  /// $XDG_RUNTIME_DIR/kiln-<device>.lock, else the same under /tmp.
  static std::filesystem::path path_of(std::string_view device);

 private:
  explicit DeviceLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace kiln
