#include "runtime/gpu/device.h"

#include <fmt/format.h>

#include <cmath>

#include "kiln/engine.hpp"

namespace kiln::gpu {
Result<SharedDevice> GpuDevice::make(Described device) {
  std::shared_ptr<GpuDevice> made(new GpuDevice(std::move(device)));
  const Driver& d = made->driver();
  if (Status ok = check(d, d.cuDevicePrimaryCtxRetain(&made->context_, made->device_.handle),
                        "cuDevicePrimaryCtxRetain");
      !ok)
    return tl::unexpected(ok.error());
  return SharedDevice(std::move(made));
}

GpuDevice::~GpuDevice() {
  if (context_ != nullptr) driver().cuDevicePrimaryCtxRelease(device_.handle);
}

Result<DeviceBuffer> DeviceBuffer::make(SharedDevice device, std::size_t bytes) {
  DeviceBuffer buffer;
  buffer.device_ = std::move(device);
  if (bytes == 0) return buffer;
  const Guest guest(*buffer.device_);
  const Driver& d = buffer.device_->driver();
  if (const Code code = d.cuMemAlloc(&buffer.pointer_, bytes); code != kSuccess)
    return fail(ErrorCode::device,
                fmt::format("cuMemAlloc of {} bytes: {}", bytes, describe(d, code)));
  buffer.bytes_ = bytes;
  return buffer;
}

Status upload(const GpuDevice& device, DevicePointer to, std::span<const std::byte> from,
              Stream stream) {
  const Guest guest(device);
  const Driver& d = device.driver();
  Status ok = check(d, d.cuMemcpyHtoDAsync(to, from.data(), from.size(), stream), "cuMemcpyHtoD");
  return ok ? check(d, d.cuStreamSynchronize(stream), "cuStreamSynchronize") : ok;
}

DeviceBuffer::~DeviceBuffer() {
  if (pointer_ == 0) return;
  const Guest guest(*device_);
  device_->driver().cuMemFree(pointer_);
}

Result<OwnedStream> OwnedStream::make(SharedDevice device) {
  OwnedStream stream(std::move(device));
  const Guest guest(*stream.device_);
  const Driver& d = stream.device_->driver();
  if (Status ok = check(d, d.cuStreamCreate(&stream.stream_, kNonBlockingStream), "cuStreamCreate");
      !ok)
    return tl::unexpected(ok.error());
  return stream;
}

OwnedStream::~OwnedStream() {
  if (stream_ == nullptr) return;
  const Guest guest(*device_);
  device_->driver().cuStreamDestroy(stream_);
}

Result<OwnedEvent> OwnedEvent::make(SharedDevice device) {
  OwnedEvent event(std::move(device));
  const Guest guest(*event.device_);
  const Driver& d = event.device_->driver();
  if (Status ok = check(d, d.cuEventCreate(&event.event_, 0), "cuEventCreate"); !ok)
    return tl::unexpected(ok.error());
  return event;
}

OwnedEvent::~OwnedEvent() {
  if (event_ == nullptr) return;
  const Guest guest(*device_);
  device_->driver().cuEventDestroy(event_);
}

}  // namespace kiln::gpu
