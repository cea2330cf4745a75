// What all plans of an engine share on its GPU, so that neither grows with the number of sizes that
// a program calls: modules, one for each code, and workspaces, one for each stream and thread. Both
// stay until the last user is gone, for graphs and running kernels may still use them. Knows no
// problems and no plans.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/gpu_workspace.h"
#include "runtime/gpu/kernel.h"

namespace kiln {

/// Thread-safe.
class GpuResources {
 public:
  /// Of a workspace's address, and of the counters at its front.
  static constexpr std::int64_t kAlignment = 256;

  explicit GpuResources(gpu::SharedDevice device)
      : device_(std::move(device)),
        tells_captures_apart_(CaptureWorkspaces::supported(device_->driver())) {}

  const gpu::SharedDevice& device() const { return device_; }
  /// The code, loaded once however often it is asked for. Errors: device.
  Result<gpu::SharedModule> module(std::span<const std::byte> image);

  /// `bytes` of memory for this thread's calls on `stream`, as a call may be several launches, and
  /// those of two threads may alternate. Its front `counters` bytes, a multiple of kAlignment, were
  /// zeroed once; every kernel leaves them zero, and none writes anything else there, however many
  /// of them its own front has. Takes no lock and allocates nothing unless it must grow. While the
  /// stream is being captured it is memory of that capture, where the driver can tell one from
  /// another; else the same as before. The device's context must be current. Errors: device,
  /// bad_input (it must grow during a capture, and the driver cannot).
  Result<void*> workspace(gpu::Stream stream, std::int64_t bytes, std::int64_t counters) const;

 private:
  struct Place {
    Place(gpu::Stream s, const Place* after) : stream(s), next(after) {}
    const gpu::Stream stream;
    const std::thread::id thread = std::this_thread::get_id();
    const Place* const next;
    mutable std::atomic<const GpuWorkspace*> memory{nullptr};  // stored by that thread alone
  };
  static constexpr std::size_t kBuckets = 64;

  const Place* find(gpu::Stream stream, std::size_t bucket) const;
  const Place& place(gpu::Stream stream, std::size_t bucket) const;
  Result<void*> grow(gpu::Stream stream, std::size_t bucket, std::int64_t bytes,
                     std::int64_t front) const;
  bool captures(gpu::Stream stream) const;
  Status may_grow(gpu::Stream stream, std::int64_t bytes) const;

  const gpu::SharedDevice device_;
  const bool tells_captures_apart_;
  std::map<std::string, gpu::SharedModule> modules_;  // by content_hash()
  mutable std::array<std::atomic<const Place*>, kBuckets> buckets_ = {};
  mutable std::deque<Place> places_;
  mutable std::vector<std::unique_ptr<const GpuWorkspace>> memory_;  // all there ever was
  mutable CaptureWorkspaces captures_;
  mutable std::mutex mutex_;  // of what is not atomic
};

}  // namespace kiln
