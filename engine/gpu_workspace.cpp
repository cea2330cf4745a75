#include "engine/gpu_workspace.h"

#include <algorithm>

#include "engine/gpu_resources.h"
#include "generator/space/parameters.h"

namespace kiln {
namespace {

/// The least that is allocated: the counters of a CUDA kernel, and partial sums of small problems.
constexpr std::int64_t kFewestCounters = 64 << 10, kFewestRest = 1 << 20;

std::int64_t at_least_doubled(std::int64_t from, std::int64_t needed, std::int64_t fewest) {
  if (needed <= from) return from;
  return std::max({round_up(needed, GpuResources::kAlignment), 2 * from, fewest});
}

}  // namespace

Result<GpuWorkspace> GpuWorkspace::make(const gpu::SharedDevice& device, std::int64_t counters,
                                        std::int64_t rest) {
  auto buffer = gpu::DeviceBuffer::make(device, static_cast<std::size_t>(counters + rest));
  if (!buffer) return tl::unexpected(buffer.error());
  const auto stream = gpu::OwnedStream::make(device);
  if (!stream) return tl::unexpected(stream.error());
  const gpu::Driver& d = device->driver();
  Status ok = gpu::check(
      d, d.cuMemsetD8Async(buffer->pointer(), 0, static_cast<std::size_t>(counters), stream->get()),
      "cuMemsetD8Async");
  if (ok) ok = gpu::check(d, d.cuStreamSynchronize(stream->get()), "cuStreamSynchronize");
  if (!ok) return tl::unexpected(ok.error());
  return GpuWorkspace{std::move(*buffer), counters, rest};
}

Result<GpuWorkspace> GpuWorkspace::grown(const gpu::SharedDevice& device,
                                         const GpuWorkspace* before, std::int64_t bytes,
                                         std::int64_t front) {
  const std::int64_t counters = at_least_doubled(before != nullptr ? before->counters : 0,
                                                 std::max<std::int64_t>(front, 1), kFewestCounters);
  const std::int64_t rest =
      at_least_doubled(before != nullptr ? before->rest : 0, bytes - front, kFewestRest);
  auto made = make(device, counters, rest);
  const std::int64_t least = round_up(bytes - front, GpuResources::kAlignment);
  // What it might need later does not fit.
  if (!made && rest > least) made = make(device, counters, least);
  return made;
}

bool CaptureWorkspaces::supported(const gpu::Driver& driver) {
  return driver.cuThreadExchangeStreamCaptureMode != nullptr &&
         driver.cuStreamGetCaptureInfo != nullptr && driver.cuUserObjectCreate != nullptr &&
         driver.cuGraphRetainUserObject != nullptr;
}

Status CaptureWorkspaces::give_to(const gpu::Driver& d, Piece& piece, gpu::Stream stream,
                                  std::uint64_t capture, gpu::Graph graph) {
  // Called by the driver on a thread of its own, where nothing of it may be called.
  const auto give_back = [](void* owner) {
    const std::unique_ptr<std::shared_ptr<Owner>> held(static_cast<std::shared_ptr<Owner>*>(owner));
    (*held)->store(0, std::memory_order_release);
  };
  constexpr unsigned kNoSynchronization = 1, kMove = 1;
  auto held = std::make_unique<std::shared_ptr<Owner>>(piece.owner);
  gpu::UserObject object = nullptr;
  piece.owner->store(capture);
  piece.stream = stream;
  Status ok =
      gpu::check(d, d.cuUserObjectCreate(&object, held.get(), give_back, 1, kNoSynchronization),
                 "cuUserObjectCreate");
  if (!ok) {
    piece.owner->store(0);
    return ok;
  }
  held.release();
  // Where the graph does not take it, the piece stays the capture's for good.
  return gpu::check(d, d.cuGraphRetainUserObject(graph, object, 1, kMove),
                    "cuGraphRetainUserObject");
}

Result<void*> CaptureWorkspaces::workspace(const gpu::SharedDevice& device, gpu::Stream stream,
                                           std::int64_t bytes, std::int64_t front) {
  const gpu::Driver& d = device->driver();
  int status = 0;
  std::uint64_t capture = 0;
  gpu::Graph graph = nullptr;
  if (Status ok = gpu::check(
          d, d.cuStreamGetCaptureInfo(stream, &status, &capture, &graph, nullptr, nullptr),
          "cuStreamGetCaptureInfo");
      !ok)
    return tl::unexpected(ok.error());
  ++capture;  // 0 is nobody's
  const Piece* before = nullptr;
  Piece* unused = nullptr;
  for (Piece& piece : pieces_) {
    const std::uint64_t owner = piece.owner->load(std::memory_order_acquire);
    if (owner == capture && piece.stream == stream) {
      if (piece.memory.holds(bytes, front)) return piece.memory.at(front);
      before = &piece;
    }
    if (owner == 0 && piece.memory.holds(bytes, front)) unused = &piece;
  }
  if (unused == nullptr) {
    const gpu::RelaxedCapture relaxed(*device);
    auto made =
        GpuWorkspace::grown(device, before == nullptr ? nullptr : &before->memory, bytes, front);
    if (!made) return tl::unexpected(made.error());
    unused = &pieces_.emplace_back(Piece{std::move(*made), stream});
  }
  if (Status ok = give_to(d, *unused, stream, capture, graph); !ok)
    return tl::unexpected(ok.error());
  return unused->memory.at(front);
}

}  // namespace kiln
