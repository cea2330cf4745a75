// One tuner a device: a lock file for the whole machine, whoever tunes. Knows nothing of tuning.
//
// Where the file lies depends on the machine alone, never on the user or the session, or two of
// them would time the same device at once: $XDG_RUNTIME_DIR is one user's, /run/lock some systems
// leave to root, $TMPDIR is a session's. It is /dev/shm, where every user may make files, nobody
// may remove another's, and a restart leaves none; /tmp where there is no such /dev/shm.
// Containers do not see each other's: give them one shared folder in $KILN_LOCK_DIR.
//
// Others may have put anything there under the lock's name. A link is not followed, nothing but a
// regular file is taken, and nothing is written to it: the system says who holds it. What cannot be
// prevented is that another user holds the lock, or makes a file that cannot be opened; the message
// names that user's id.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "generator/problem/device_caps.h"
#include "kiln/error.hpp"

namespace kiln {

/// What the lock of a device is named by: "cpu"; a GPU's address on the bus ("cuda-0000:3b:00.0"),
/// since its ordinal `index` is another one under another $CUDA_VISIBLE_DEVICES.
std::string lock_name(Vendor vendor, int index);

/// Held until destroyed; the system releases it when the process dies. Move-only.
class DeviceLock {
 public:
  /// Waits up to `patience` for `device` ("cpu", "cuda-0000:3b:00.0"); `on_wait` is told once who
  /// holds it. Errors: device (held for longer, naming the holder; cancelled; the file cannot be
  /// made or is none to lock, naming it).
  static Result<DeviceLock> acquire(std::string_view device, std::chrono::duration<double> patience,
                                    const std::function<void(const std::string&)>& on_wait = {},
                                    const std::function<bool()>& cancelled = {});
  DeviceLock(DeviceLock&& other) noexcept;
  DeviceLock& operator=(DeviceLock&& other) noexcept;
  ~DeviceLock();

  /// kiln-<device>.lock in $KILN_LOCK_DIR, else in /dev/shm or /tmp.
  static std::filesystem::path path_of(std::string_view device);

 private:
  explicit DeviceLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace kiln
