#include "engine/gpu_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cache/codec/codec.h"
#include "generator/space/parameters.h"

namespace kiln {
namespace {

std::size_t mixed(gpu::Stream stream, std::thread::id thread) {
  const auto x = reinterpret_cast<std::uintptr_t>(stream) ^ std::hash<std::thread::id>()(thread);
  return static_cast<std::size_t>((x * 0x9e3779b97f4a7c15) >> 32);
}

}  // namespace

Result<gpu::SharedModule> GpuResources::module(std::span<const std::byte> image) {
  const std::string hash = content_hash(image);
  const std::lock_guard lock(mutex_);
  if (const auto known = modules_.find(hash); known != modules_.end()) return known->second;
  auto loaded = gpu::GpuModule::load(device_, image);
  if (loaded) modules_.emplace(hash, *loaded);
  return loaded;
}

const GpuResources::Place* GpuResources::find(gpu::Stream stream, std::size_t bucket) const {
  const auto thread = std::this_thread::get_id();
  const Place* place = buckets_[bucket].load(std::memory_order_acquire);
  while (place != nullptr && (place->stream != stream || place->thread != thread))
    place = place->next;
  return place;
}

Result<void*> GpuResources::workspace(gpu::Stream stream, std::int64_t bytes,
                                      std::int64_t front) const {
  if (tells_captures_apart_ && captures(stream)) [[unlikely]] {
    const std::lock_guard lock(mutex_);
    return captures_.workspace(device_, stream, bytes, front);
  }
  const std::size_t bucket = mixed(stream, std::this_thread::get_id()) % kBuckets;
  if (const Place* here = find(stream, bucket)) [[likely]]
    if (const GpuWorkspace* memory = here->memory.load(std::memory_order_acquire);
        memory != nullptr && memory->holds(bytes, front)) [[likely]]
      return memory->at(front);
  return grow(stream, bucket, bytes, front);
}

const GpuResources::Place& GpuResources::place(gpu::Stream stream, std::size_t bucket) const {
  if (const Place* known = find(stream, bucket)) return *known;
  const Place& made = places_.emplace_back(stream, buckets_[bucket].load());
  buckets_[bucket].store(&made, std::memory_order_release);
  return made;
}

/// The default stream cannot be captured.
bool GpuResources::captures(gpu::Stream stream) const {
  constexpr int kActive = 1;
  int status = 0;
  return stream != nullptr &&
         device_->driver().cuStreamIsCapturing(stream, &status) == gpu::kSuccess &&
         status == kActive;
}

Status GpuResources::may_grow(gpu::Stream stream, std::int64_t bytes) const {
  const gpu::Driver& d = device_->driver();
  if (d.cuThreadExchangeStreamCaptureMode != nullptr) return {};
  int capturing = 0;
  if (Status ok = gpu::check(d, d.cuStreamIsCapturing(stream, &capturing), "cuStreamIsCapturing");
      !ok)
    return ok;
  if (capturing == 0) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("workspace = null: a captured call needs {} bytes of it, or one call on "
                          "the same stream and thread before the capture",
                          bytes));
}

Result<void*> GpuResources::grow(gpu::Stream stream, std::size_t bucket, std::int64_t bytes,
                                 std::int64_t front) const {
  if (Status ok = may_grow(stream, bytes); !ok) return tl::unexpected(ok.error());
  const gpu::RelaxedCapture relaxed(*device_);
  const std::lock_guard lock(mutex_);
  const Place& here = place(stream, bucket);
  auto made =
      GpuWorkspace::grown(device_, here.memory.load(std::memory_order_relaxed), bytes, front);
  if (!made) return tl::unexpected(made.error());
  memory_.push_back(std::make_unique<const GpuWorkspace>(std::move(*made)));
  here.memory.store(memory_.back().get(), std::memory_order_release);
  return memory_.back()->at(front);
}

}  // namespace kiln
