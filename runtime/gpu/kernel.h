// A loaded GPU binary and its launches: modules, tensor maps, one call put into a stream. Knows
// what a launch description says; knows nothing of how it was chosen or how long it takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/operand.h"
#include "generator/problem/problem.h"
#include "generator/space/gpu_launch.h"
#include "kiln/engine.hpp"
#include "runtime/gpu/device.h"
#include "templates/cuda/common/abi.h"
#include "templates/cuda/common/list_abi.h"

namespace kiln::gpu {

/// Code on the device. Shared by all launches of it.
class GpuModule {
 public:
  /// Errors: device (no cubin for this device, no memory).
  static Result<std::shared_ptr<const GpuModule>> load(SharedDevice device,
                                                       std::span<const std::byte> image);
  ~GpuModule();
  GpuModule(const GpuModule&) = delete;
  GpuModule& operator=(const GpuModule&) = delete;

  /// Errors: device (no such entry), naming it.
  Result<Function> function(const std::string& entry) const;
  const SharedDevice& device() const { return device_; }

 private:
  explicit GpuModule(SharedDevice device) : device_(std::move(device)) {}
  SharedDevice device_;
  Module module_ = nullptr;
};

using SharedModule = std::shared_ptr<const GpuModule>;

/// A plain kernel launch, for kiln's own helpers (references, fills, comparisons).
Status launch(const GpuDevice& device, Function function, Dim3 grid, Dim3 block,
              std::span<void* const> parameters, Stream stream, int dynamic_shared_bytes = 0);

/// Arguments of one call but for the workspace. `problem` comes from Problem::of(); operands are
/// the caller's, so this is where A and B are exchanged. A list is handed on as it is: steps want
/// its canonical entries (canonical_entries()) in the place of `groups`.
KilnGpuArgs gpu_args(const Problem& problem, const Operands& operands);

/// Puts the values of an expression's operands in the host's memory in place of their addresses,
/// which is what kernels have; none where the address is null. `read(from, to, bytes)` copies one
/// to the host. Errors: as it has.
template <typename F>
Status take_host_values(const Gemm& gemm, KilnGpuArgs& args, F&& read) {
  const auto operands = gemm.epilogue.expression.operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].host || args.extra[i] == nullptr) continue;
    std::uintptr_t bits = 0;
    const auto bytes = static_cast<std::size_t>(size_of(dtype_of(gemm, extra_operand(i))));
    if (Status ok = read(args.extra[i], &bits, bytes); !ok) return ok;
    args.extra[i] = reinterpret_cast<const void*>(bits);
  }
  return {};
}
/// Of operands that the host can read.
void take_host_values(const Gemm& gemm, KilnGpuArgs& args);
/// The way back, from what a kernel has to what a call has: in `operands` the addresses of these
/// values, which lie in `args`.
void point_to_host_values(const Gemm& gemm, const KilnGpuArgs& args, Operands& operands);

/// What the steps of a launch are given of a call: where rows are added, `d` is the product in the
/// workspace, and what it is added to has places of its own.
KilnGpuArgs step_args(const GpuLaunch& launch, const KilnGpuArgs& args);

/// The KilnListChunk of any kernel (templates/cuda/common/list_chunk.h), whose entries are as long
/// as the launch says.
struct ListChunk {
  long long first, count;
  std::byte entries[kBytesOfChunk];
};

/// The entries of a call's list, in canonical form, that a step from `first` on is given by value;
/// args.groups points to all of them, in memory of the host.
void read_chunk(const GpuLaunch& launch, const KilnGpuArgs& args, std::int64_t first,
                ListChunk& chunk);

/// Tensor maps of one launch.
inline constexpr std::size_t kMostMaps = 8;
/// Where the memory begins that each map of a launch describes, in their order. What an expression
/// reads may begin anywhere: its maps at a multiple of 16 bytes before, where kernels read it
/// without them.
std::array<const void*, kMostMaps> map_addresses(const GpuLaunch& launch, const KilnGpuArgs& args);

/// A module with one launch description bound to it: everything about a call but its pointers.
/// Immutable, thread-safe.
class GpuKernel {
 public:
  /// Errors: device (a missing entry, more shared memory than there is).
  static Result<GpuKernel> make(SharedModule module, GpuLaunch launch);

  const GpuLaunch& description() const { return launch_; }
  const SharedDevice& device() const { return module_->device(); }

  /// The tensor maps for these pointers; `maps` holds description().maps.size() of them. Errors:
  /// device (the driver refuses a map), with its number.
  Status encode(const KilnGpuArgs& args, std::span<KilnTensorMap> maps) const;
  /// Puts the launches into the stream; the device's context must be current. Allocates nothing,
  /// waits for nothing. Errors: device.
  Status enqueue(const KilnGpuArgs& args, std::span<const KilnTensorMap> maps, Stream stream) const;
  /// The launches of enqueue() with everything made beforehand: what a call costs at least. They
  /// point to `args`, which step_args() made, `maps` and this kernel.
  struct BareLaunch {
    Function function = nullptr;
    LaunchConfig config{};
    std::vector<void*> parameters;
    std::shared_ptr<ListChunk> chunk;  // one of them, where the step takes entries of a list
  };
  std::vector<BareLaunch> bare_launches(const KilnGpuArgs& args,
                                        std::span<const KilnTensorMap> maps, Stream stream) const;
  /// Both, for calls that are not repeated with the same pointers.
  Status run(const KilnGpuArgs& args, Stream stream) const;

 private:
  struct Step {
    Function function = nullptr;
    LaunchConfig config{};
    LaunchAttribute attributes[2] = {};
    std::vector<int> maps;
    std::int64_t first_entry = -1;
  };
  GpuKernel(SharedModule module, GpuLaunch launch)
      : module_(std::move(module)), launch_(std::move(launch)) {}
  Status bind(const GpuStep& described);

  SharedModule module_;
  GpuLaunch launch_;
  std::vector<Step> steps_;
};

}  // namespace kiln::gpu
