#include "runtime/emulator/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "generator/problem/product_list.h"
#include "runtime/buffers.h"
#include "runtime/cpu/affinity.h"
#include "runtime/cpu/image.h"
#include "runtime/emulator/fault.h"
#include "runtime/emulator/instructions.h"
#include "runtime/gpu/kernel.h"
#include "runtime/work_counts.h"

namespace kiln {
namespace {

using emu::EmulatedMap;
using emu::Entry;
using emu::Grid;
using emu::Machine;
using emu::Scheduling;

/// Clusters that a thread interleaves, so that blocks which pass each other data meet in many
/// orders.
constexpr std::int64_t kTogether = 3;

/// Lanes of all threads together. A lane's stack between its guard pages is two mappings, of which
/// a process has 65530, and two kernels may be loaded at once.
constexpr std::int64_t kMostLanes = 12000;

/// What the copy engine can be told of; a driver refuses the rest.
Status check(const TensorMapSpec& map, std::size_t number) {
  const auto bad = [&](std::string_view what, auto value) {
    return fail(ErrorCode::internal, fmt::format("tensor map {}: {} {}", number, what, value));
  };
  if (map.rank < 1 || map.rank > TensorMapSpec::kMaxRank) return bad("rank", map.rank);
  for (int d = 0; d < map.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (map.dims[i] == 0 || map.dims[i] > (std::uint64_t{1} << 32))
      return bad("elements along a dimension:", map.dims[i]);
    if (map.box[i] == 0 || map.box[i] > 256) return bad("box of", map.box[i]);
    if (d == 0 && map.box[0] * static_cast<std::uint64_t>(bytes_of(map.element)) % 16 != 0)
      return bad("a box's rows of no whole 16 bytes:", map.box[0]);
    if (d > 0 && (map.strides[i - 1] % 16 != 0 || map.strides[i - 1] >= (std::uint64_t{1} << 40)))
      return bad("stride of", map.strides[i - 1]);
  }
  return {};
}

}  // namespace

struct EmulatedKernel::Impl {
  LoadedImage image;
  GpuLaunch launch;
  DeviceCaps device;
  std::vector<Entry> entries;                      // of the steps
  std::vector<std::unique_ptr<Machine>> machines;  // one a thread

  Result<std::vector<KilnTensorMap>> maps(const KilnGpuArgs& args) const;
  Status run(const Grid& grid, const Scheduling& policy);
};

EmulatedKernel::EmulatedKernel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EmulatedKernel::EmulatedKernel(EmulatedKernel&&) noexcept = default;
EmulatedKernel& EmulatedKernel::operator=(EmulatedKernel&&) noexcept = default;
EmulatedKernel::~EmulatedKernel() = default;
const GpuLaunch& EmulatedKernel::description() const { return impl_->launch; }

Result<EmulatedKernel> EmulatedKernel::load(std::span<const std::byte> image, GpuLaunch launch,
                                            const DeviceCaps& device) {
  auto loaded = LoadedImage::load(image);
  if (!loaded) return tl::unexpected(loaded.error());
  auto impl = std::make_unique<Impl>();
  impl->image = std::move(*loaded);
  impl->launch = std::move(launch);
  impl->device = device;
  auto* ops = static_cast<const KilnEmuOps**>(impl->image.symbol("kiln_emu_ops"));
  if (ops == nullptr) return fail(ErrorCode::device, "kernel image: not made for the emulator");
  *ops = &emu::instructions();
  for (const GpuStep& step : impl->launch.steps) {
    auto* entry = impl->image.symbol(("kiln_emu_" + step.entry).c_str());
    if (entry == nullptr)
      return fail(ErrorCode::device, "kernel image: no entry point " + step.entry);
    impl->entries.push_back(reinterpret_cast<Entry>(entry));
  }
  for (std::size_t i = 0; i < impl->launch.maps.size(); ++i)
    if (Status ok = check(impl->launch.maps[i], i); !ok) return tl::unexpected(ok.error());
  std::int64_t lanes = 1;  // of one thread
  for (const GpuStep& step : impl->launch.steps)
    lanes = std::max(lanes, kTogether * step.cluster.count() * step.block.count());
  const std::int64_t threads = usable_threads();
  for (std::int64_t i = 0; i < std::clamp<std::int64_t>(kMostLanes / lanes, 1, threads); ++i)
    impl->machines.push_back(std::make_unique<Machine>(device));
  return EmulatedKernel(std::move(impl));
}

Result<std::vector<KilnTensorMap>> EmulatedKernel::Impl::maps(const KilnGpuArgs& args) const {
  std::vector<KilnTensorMap> out(launch.maps.size());
  const auto addresses = gpu::map_addresses(launch, args);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const TensorMapSpec& spec = launch.maps[i];
    auto* base = static_cast<unsigned char*>(const_cast<void*>(addresses[i])) + spec.offset;
    if (reinterpret_cast<std::uintptr_t>(base) % 16 != 0)
      return fail(ErrorCode::device, fmt::format("tensor map {}: address {} is not 16-byte aligned",
                                                 i, static_cast<void*>(base)));
    const EmulatedMap map{EmulatedMap::kMagic, base, &spec, spec.dims, spec.strides};
    std::memcpy(&out[i], &map, sizeof(map));
  }
  return out;
}

Status EmulatedKernel::Impl::run(const Grid& grid, const Scheduling& policy) {
  count_work(Work::emulated_blocks, grid.step->grid.count());
  const std::int64_t clusters = grid.step->grid.count() / grid.step->cluster.count();
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  Status outcome;
  const std::int64_t together = policy.order == emu::Order::sequential ? 1 : kTogether;
  const auto work = [&](Machine& machine) {
    const auto give_up = [&](Status why) {
      const std::lock_guard lock(mutex);
      if (outcome) outcome = std::move(why);
      next = clusters;
    };
    try {
      const emu::FaultWatch watch;
      for (std::int64_t c = next.fetch_add(together); c < clusters; c = next.fetch_add(together))
        if (Status ok = machine.run(grid, c, std::min(together, clusters - c), policy); !ok)
          give_up(std::move(ok));
    } catch (const std::bad_alloc&) {
      give_up(fail(ErrorCode::device, "no memory for the stacks of the emulated lanes"));
    }
  };
  std::vector<std::thread> threads;
  const std::int64_t rounds = (clusters + together - 1) / together;
  const auto helpers = std::min<std::int64_t>(rounds, std::ssize(machines)) - 1;
  for (std::int64_t i = 0; i < helpers; ++i)
    threads.emplace_back(work, std::ref(*machines[static_cast<std::size_t>(i + 1)]));
  work(*machines.front());
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

Status EmulatedKernel::run(const KilnGpuArgs& given, std::uint64_t seed) const {
  const KilnGpuArgs args = gpu::step_args(impl_->launch, given);
  const auto maps = impl_->maps(args);
  if (!maps) return tl::unexpected(maps.error());
  const Scheduling policy = Scheduling::drawn(seed);
  for (std::size_t i = 0; i < impl_->launch.steps.size(); ++i) {
    Grid grid;
    grid.step = &impl_->launch.steps[i];
    grid.entry = impl_->entries[i];
    grid.args = &args;
    for (const int map : grid.step->maps)
      grid.maps.push_back(&(*maps)[static_cast<std::size_t>(map)]);
    gpu::ListChunk chunk;
    if (grid.step->first_entry >= 0) {
      gpu::read_chunk(impl_->launch, args, grid.step->first_entry, chunk);
      grid.maps.push_back(reinterpret_cast<const KilnTensorMap*>(&chunk));
    }
    if (Status ok = impl_->run(grid, policy); !ok) return ok;
  }
  return {};
}

Status EmulatedKernel::call(const Problem& problem, const Operands& operands,
                            std::uint64_t seed) const {
  KilnGpuArgs args = gpu::gpu_args(problem, operands);
  std::vector<ListEntry> list;
  if (lists_products(problem.gemm)) {
    canonical_entries(problem, operands.list, list);
    args.groups = list.data();
  }
  const auto bytes = static_cast<std::size_t>(impl_->launch.workspace_bytes);
  const auto zeroed = static_cast<std::size_t>(impl_->launch.zeroed_bytes);
  // At its beginning the workspace is as aligned as a driver makes it.
  auto workspace = GuardedBuffer::make((bytes + 255) / 256 * 256, 256);
  if (!workspace) return tl::unexpected(workspace.error());
  poison(DType::fp32, {workspace->data(), workspace->size()});
  std::memset(workspace->data(), 0, zeroed);
  args.workspace = workspace->data();
  if (Status ok = run(args, seed); !ok) return ok;
  if (auto damage = workspace->damage()) return fail(ErrorCode::device, "workspace: " + *damage);
  for (std::size_t i = 0; i < zeroed; ++i)
    if (workspace->data()[i] != std::byte{0})
      return fail(ErrorCode::device, fmt::format("byte {} of the workspace must be left zero", i));
  return {};
}

}  // namespace kiln
