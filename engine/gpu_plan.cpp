#include "engine/gpu_plan.h"

#include <fmt/format.h>

#include <span>
#include <vector>

#include "generator/problem/operands.h"
#include "generator/problem/product_list.h"
#include "generator/space/family.h"
#include "runtime/no_cancel.h"

namespace kiln {
namespace {

std::size_t slot_of(std::span<const void* const> addresses, std::size_t slots) {
  std::uint64_t mix = 0;
  for (const void* p : addresses)
    mix = (mix ^ reinterpret_cast<std::uintptr_t>(p)) * 0x9e3779b97f4a7c15;
  return static_cast<std::size_t>(mix >> 32) % slots;
}

}  // namespace

GpuPlan::GpuPlan(Shared shared, const Problem& problem)
    : shared_(std::move(shared)), args_(gpu::gpu_args(problem, {})), problem_(problem) {}

Result<std::unique_ptr<GpuPlan>> GpuPlan::make(Shared shared, gpu::SharedModule module,
                                               const Problem& problem, const DeviceCaps& caps,
                                               const Config& config) {
  std::unique_ptr<GpuPlan> plan(new GpuPlan(std::move(shared), problem));
  auto kernel = gpu::GpuKernel::make(std::move(module),
                                     family_of(config, caps.vendor).launch(problem, caps, config));
  if (!kernel) return tl::unexpected(kernel.error());
  plan->workspace_bytes_ = kernel->description().workspace_bytes;
  plan->zeroed_bytes_ = kernel->description().zeroed_bytes;
  if (plan->zeroed_bytes_ % GpuResources::kAlignment != 0)
    return fail(ErrorCode::internal, fmt::format("zeroed_bytes = {}: must be a multiple of {}",
                                                 plan->zeroed_bytes_, GpuResources::kAlignment));
  plan->kernel_.emplace(std::move(*kernel));
  return plan;
}

std::unique_ptr<GpuPlan> GpuPlan::of_library(Shared shared, const Problem& problem,
                                             cuda::CublasLt library, int choice) {
  std::unique_ptr<GpuPlan> plan(new GpuPlan(std::move(shared), problem));
  plan->workspace_bytes_ = static_cast<std::int64_t>(library.workspace_bytes(choice));
  plan->library_.emplace(std::move(library));
  plan->choice_ = choice;
  return plan;
}

GpuPlan::~GpuPlan() {
  for (auto& slot : maps_) delete slot.load();
}

Result<void*> GpuPlan::workspace(const Operands& operands, gpu::Stream stream) const {
  if (operands.workspace == nullptr)
    return shared_->workspace(stream, workspace_bytes_, zeroed_bytes_);
  if (operands.workspace_bytes < workspace_bytes_)
    return fail(ErrorCode::bad_input, fmt::format("workspace_bytes = {}: this plan needs {}",
                                                  operands.workspace_bytes, workspace_bytes_));
  const auto address = reinterpret_cast<std::uintptr_t>(operands.workspace);
  if (address % GpuResources::kAlignment != 0)
    return fail(ErrorCode::bad_input,
                fmt::format("workspace = {}: must be {}-byte aligned", fmt::ptr(operands.workspace),
                            GpuResources::kAlignment));
  // Nobody knows what the caller did with it in between.
  const gpu::Driver& d = shared_->device()->driver();
  if (zeroed_bytes_ > 0)
    if (Status ok = gpu::check(
            d, d.cuMemsetD8Async(address, 0, static_cast<std::size_t>(zeroed_bytes_), stream),
            "cuMemsetD8Async");
        !ok)
      return tl::unexpected(ok.error());
  return operands.workspace;
}

Status GpuPlan::launch(const KilnGpuArgs& args, gpu::Stream stream) const {
  if (library_) return library_->enqueue(args, choice_, stream);
  if (kernel_->description().maps.empty()) return kernel_->enqueue(args, {}, stream);
  const auto addresses = gpu::map_addresses(kernel_->description(), args);
  auto& slot = maps_[slot_of(addresses, kMapSlots)];
  const Maps* kept = slot.load(std::memory_order_acquire);
  if (kept != nullptr && kept->addresses == addresses) [[likely]]
    return kernel_->enqueue(args, kept->maps, stream);
  Maps fresh;
  fresh.addresses = addresses;
  if (Status ok = kernel_->encode(args, fresh.maps); !ok) return ok;
  // A taken slot stays as it is: its maps may be in use by another thread right now.
  if (kept == nullptr) {
    auto made = std::make_unique<const Maps>(fresh);
    if (slot.compare_exchange_strong(kept, made.get(), std::memory_order_release)) made.release();
  }
  return kernel_->enqueue(args, fresh.maps, stream);
}

KilnGpuArgs GpuPlan::arguments(const Operands& operands, void* workspace) const {
  KilnGpuArgs args = args_;
  bind_operands(args, operands, problem_.swapped);
  gpu::take_host_values(problem_.gemm, args);
  if (lists_products(problem_.gemm)) {
    // One for the calls of a thread: a launch copies what it is given.
    thread_local std::vector<ListEntry> list;
    canonical_entries(problem_, operands.list, list);
    args.groups = list.data();
  }
  // A tensor map needs an address even where beta = 0 keeps C from being read.
  if (args.c == nullptr) args.c = args.d;
  args.workspace = workspace;
  return args;
}

Status GpuPlan::run(const Operands& operands) const {
  const NoCancel whole;  // drivers hold locks
  const gpu::Guest guest(*shared_->device());
  const auto stream = static_cast<gpu::Stream>(operands.stream);
  if (workspace_bytes_ == 0) return launch(arguments(operands, nullptr), stream);
  const auto memory = workspace(operands, stream);
  if (!memory) [[unlikely]]
    return tl::unexpected(memory.error());
  return launch(arguments(operands, *memory), stream);
}

}  // namespace kiln
