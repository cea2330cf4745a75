// A workspace on a GPU, and those of captured calls. Knows no problems and no plans.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "runtime/gpu/device.h"

namespace kiln {

/// Counters end where partial sums begin, for every kernel. The counters were zeroed once; every
/// kernel leaves them zero, and none writes anything else there.
struct GpuWorkspace {
  gpu::DeviceBuffer buffer;
  std::int64_t counters, rest;

  /// Zeroed on a stream of its own: on the caller's it might become a part of what is captured.
  /// The device's context must be current. Errors: device.
  static Result<GpuWorkspace> make(const gpu::SharedDevice& device, std::int64_t counters,
                                   std::int64_t rest);
  /// One for a call of `bytes`, of which the first `front` are counters: twice as large as `before`
  /// at least where it must grow and memory allows, so that a growing problem leaves no more behind
  /// than it uses.
  static Result<GpuWorkspace> grown(const gpu::SharedDevice& device, const GpuWorkspace* before,
                                    std::int64_t bytes, std::int64_t front);
  bool holds(std::int64_t bytes, std::int64_t front) const {
    return front <= counters && bytes - front <= rest;
  }
  void* at(std::int64_t front) const { return buffer.data() + (counters - front); }
};

/// Workspaces of calls that are captured into graphs: one for each capture and stream, for graphs
/// may run beside each other and beside other calls. A graph that is gone, with all that were made
/// of it, leaves them to later captures. Not thread-safe.
class CaptureWorkspaces {
 public:
  /// Whether the driver has what this needs.
  static bool supported(const gpu::Driver& driver);

  /// As GpuResources::workspace(), of a stream that is being captured. Errors: device.
  Result<void*> workspace(const gpu::SharedDevice& device, gpu::Stream stream, std::int64_t bytes,
                          std::int64_t front);

 private:
  /// The driver's number of a capture, plus one; 0: nobody's. The driver sets it to 0.
  using Owner = std::atomic<std::uint64_t>;
  struct Piece {
    GpuWorkspace memory;
    gpu::Stream stream;
    std::shared_ptr<Owner> owner = std::make_shared<Owner>(0);
  };
  Status give_to(const gpu::Driver& driver, Piece& piece, gpu::Stream stream, std::uint64_t capture,
                 gpu::Graph graph);

  std::deque<Piece> pieces_;
};

}  // namespace kiln
