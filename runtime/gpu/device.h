// One GPU behind the driver's table of functions, which AMD's runtime fills too: used as a guest of
// its primary context, so that whatever context the calling thread had is current again when a call
// returns. Owns memory, streams and events by value. Knows no kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "generator/problem/device_caps.h"
#include "runtime/gpu/driver.h"

namespace kiln::gpu {

/// What is known of a device before it is used.
struct Described {
  const Driver& driver;
  int ordinal = 0;
  Device handle = 0;
  DeviceCaps caps = {};
  std::string bus_id = {};
  std::string runtime_version = {};
};

/// Thread-safe; shared by everything that lives on the device.
class GpuDevice {
 public:
  /// A device behind that table. Errors: device (it gives no context).
  static Result<std::shared_ptr<const GpuDevice>> make(Described device);
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const Driver& driver() const { return device_.driver; }
  Context context() const { return context_; }
  const DeviceCaps& caps() const { return device_.caps; }
  int ordinal() const { return device_.ordinal; }
  /// Names the board wherever it is plugged, for locks: "0000:3b:00.0".
  const std::string& bus_id() const { return device_.bus_id; }
  /// "kiln 0.1.0, CUDA driver 13.0": the performance tier of validators.
  const std::string& runtime_version() const { return device_.runtime_version; }

 private:
  explicit GpuDevice(Described device) : device_(std::move(device)) {}

  const Described device_;
  Context context_ = nullptr;
};

/// Makes the device's context current for a scope. Costs one look when it is current already, as
/// it is in programs that use the CUDA runtime.
class Guest {
 public:
  explicit Guest(const GpuDevice& device) : device_(device) {
    Context current = nullptr;
    device.driver().cuCtxGetCurrent(&current);
    if (current == device.context()) [[likely]]
      return;
    pushed_ = device.driver().cuCtxPushCurrent(device.context()) == kSuccess;
  }
  ~Guest() {
    Context popped = nullptr;
    if (pushed_) device_.driver().cuCtxPopCurrent(&popped);
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

 private:
  const GpuDevice& device_;
  bool pushed_ = false;
};

/// Lets this thread allocate memory and load code for a scope although a stream is being captured,
/// its own or another thread's: nothing of that becomes a part of the graph. Does nothing where the
/// runtime cannot.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const GpuDevice& device)
      : exchange_(device.driver().cuThreadExchangeStreamCaptureMode) {
    if (exchange_ != nullptr && exchange_(&mode_) != kSuccess) exchange_ = nullptr;
  }
  ~RelaxedCapture() {
    if (exchange_ != nullptr) exchange_(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  decltype(Driver::cuThreadExchangeStreamCaptureMode) exchange_;
  CaptureMode mode_ = CaptureMode::relaxed;  // then what it was before
};

/// Device memory. Move-only.
class DeviceBuffer {
 public:
  /// At least 256-byte aligned; an empty one has no memory. Errors: device (bytes named).
  static Result<DeviceBuffer> make(std::shared_ptr<const GpuDevice> device, std::size_t bytes);
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(std::move(other.device_)),
        pointer_(std::exchange(other.pointer_, 0)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(pointer_, other.pointer_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer();

  DevicePointer pointer() const { return pointer_; }
  std::byte* data() const { return reinterpret_cast<std::byte*>(pointer_); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const GpuDevice> device_;
  DevicePointer pointer_ = 0;
  std::size_t bytes_ = 0;
};

/// Copies from the host behind what is in the stream, and waits until it is there. (The driver's
/// copy without a stream may return before, and a kernel in another stream then reads what was
/// there.) Errors: device.
Status upload(const GpuDevice& device, DevicePointer to, std::span<const std::byte> from,
              Stream stream = nullptr);

/// A stream of its own, or an event: created and destroyed with the scope.
class OwnedStream {
 public:
  static Result<OwnedStream> make(std::shared_ptr<const GpuDevice> device);
  OwnedStream(OwnedStream&& other) noexcept
      : device_(std::move(other.device_)), stream_(std::exchange(other.stream_, nullptr)) {}
  OwnedStream& operator=(OwnedStream&&) = delete;
  ~OwnedStream();
  Stream get() const { return stream_; }

 private:
  explicit OwnedStream(std::shared_ptr<const GpuDevice> device) : device_(std::move(device)) {}
  std::shared_ptr<const GpuDevice> device_;
  Stream stream_ = nullptr;
};

class OwnedEvent {
 public:
  static Result<OwnedEvent> make(std::shared_ptr<const GpuDevice> device);
  OwnedEvent(OwnedEvent&& other) noexcept
      : device_(std::move(other.device_)), event_(std::exchange(other.event_, nullptr)) {}
  OwnedEvent& operator=(OwnedEvent&&) = delete;
  ~OwnedEvent();
  Event get() const { return event_; }

 private:
  explicit OwnedEvent(std::shared_ptr<const GpuDevice> device) : device_(std::move(device)) {}
  std::shared_ptr<const GpuDevice> device_;
  Event event_ = nullptr;
};

using SharedDevice = std::shared_ptr<const GpuDevice>;

}  // namespace kiln::gpu
