#include "engine/gpu_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cache/codec.h"
#include "generator/space/parameters.h"

namespace kiln {
namespace {

/// The least that is allocated: the counters of a CUDA kernel, and partial sums of small problems.
constexpr std::int64_t kFewestCounters = 64 << 10, kFewestRest = 1 << 20;

std::size_t mixed(gpu::Stream stream, std::thread::id thread) {
  const auto x = reinterpret_cast<std::uintptr_t>(stream) ^ std::hash<std::thread::id>()(thread);
  return static_cast<std::size_t>((x * 0x9e3779b97f4a7c15) >> 32);
}

/// Twice as much at least, so that a growing problem leaves no more behind than it uses.
std::int64_t grown(std::int64_t from, std::int64_t needed, std::int64_t fewest) {
  if (needed <= from) return from;
  return std::max({round_up(needed, GpuResources::kAlignment), 2 * from, fewest});
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
  const std::size_t bucket = mixed(stream, std::this_thread::get_id()) % kBuckets;
  if (const Place* here = find(stream, bucket)) [[likely]]
    if (const Memory* memory = here->memory.load(std::memory_order_acquire);
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

/// On a stream of its own: on the caller's it might become a part of what is being captured.
Result<gpu::DeviceBuffer> GpuResources::zeroed(std::int64_t bytes, std::int64_t front) const {
  auto buffer = gpu::DeviceBuffer::make(device_, static_cast<std::size_t>(bytes));
  if (!buffer) return buffer;
  const auto stream = gpu::OwnedStream::make(device_);
  if (!stream) return tl::unexpected(stream.error());
  const gpu::Driver& d = device_->driver();
  Status ok = gpu::check(
      d, d.cuMemsetD8Async(buffer->pointer(), 0, static_cast<std::size_t>(front), stream->get()),
      "cuMemsetD8Async");
  if (ok) ok = gpu::check(d, d.cuStreamSynchronize(stream->get()), "cuStreamSynchronize");
  if (!ok) return tl::unexpected(ok.error());
  return buffer;
}

Result<void*> GpuResources::grow(gpu::Stream stream, std::size_t bucket, std::int64_t bytes,
                                 std::int64_t front) const {
  if (Status ok = may_grow(stream, bytes); !ok) return tl::unexpected(ok.error());
  const gpu::RelaxedCapture relaxed(*device_);
  const std::lock_guard lock(mutex_);
  const Place& here = place(stream, bucket);
  const Memory* before = here.memory.load(std::memory_order_relaxed);
  const std::int64_t counters = grown(before != nullptr ? before->counters : 0,
                                      std::max<std::int64_t>(front, 1), kFewestCounters);
  std::int64_t rest = grown(before != nullptr ? before->rest : 0, bytes - front, kFewestRest);
  auto buffer = zeroed(counters + rest, counters);
  if (!buffer && rest > bytes - front) {  // what it might need later does not fit
    rest = round_up(bytes - front, kAlignment);
    buffer = zeroed(counters + rest, counters);
  }
  if (!buffer) return tl::unexpected(buffer.error());
  memory_.push_back(std::make_unique<const Memory>(Memory{std::move(*buffer), counters, rest}));
  here.memory.store(memory_.back().get(), std::memory_order_release);
  return memory_.back()->at(front);
}

}  // namespace kiln
