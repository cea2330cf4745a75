// Plans of ranges: the size is an argument of the call.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "engine/engine_impl.h"
#include "generator/problem/size.h"
#include "generator/space/family.h"

struct KILN_LOCAL kiln::RangePlan::Impl {
  /// Plans of so many sizes are found without the engine's look-up.
  static constexpr std::int64_t kSlots = 4096;

  Impl(std::shared_ptr<Engine::Impl> of, const GemmRange& what, int with_threads)
      : engine(std::move(of)),
        range(what),
        threads(with_threads),
        slots(static_cast<std::size_t>(std::min(kSlots, what.last() - what.first + 1))) {}

  /// Calls `use` with the plan of a size. Errors: bad_input (a size outside the range), as
  /// Engine::plan(), and those of `use`.
  template <typename F>
  auto with_plan(std::int64_t size, F&& use) const
      -> std::decay_t<decltype(use(std::declval<const Plan::Impl&>()))>;

  std::shared_ptr<Engine::Impl> engine;
  GemmRange range;
  int threads;
  std::int64_t workspace_bytes = 0;
  // Plans of the engine's table, which keeps them as long as it lives.
  mutable std::vector<std::atomic<const Plan::Impl*>> slots;
};

template <typename F>
auto kiln::RangePlan::Impl::with_plan(std::int64_t size, F&& use) const
    -> std::decay_t<decltype(use(std::declval<const Plan::Impl&>()))> {
  if (size < range.first || size > range.last())
    return fail(ErrorCode::bad_input,
                fmt::format("{} = {}: must be of the plan's range, {} to {}", name(range.size),
                            size, range.first, range.last()));
  auto& slot = slots[static_cast<std::size_t>(size - range.first) % slots.size()];
  const Plan::Impl* kept = slot.load(std::memory_order_acquire);
  if (kept != nullptr && kept->gemm.*member_of(range.size) == size) [[likely]]
    return use(*kept);
  const auto found = engine->resolver.plan_for(engine->with_defaults(range.at(size)), threads);
  if (!found) return tl::unexpected(found.error());
  // One that the engine does not keep ends with this call.
  if ((*found)->in_table) slot.store(found->get(), std::memory_order_release);
  return use(**found);
}

namespace kiln {
namespace {

/// The most that any size between `first` and the cell's last needs: with each tile it may change.
std::int64_t workspace_of(const GemmRange& range, const DeviceCaps& device, const RangeCell& cell,
                          std::int64_t first) {
  const Family& family = family_of(cell.config, device.vendor);
  std::int64_t most = 0;
  const auto look = [&](std::int64_t size) {
    const auto problem = Problem::of(range.at(size));  // whole blocks of k are some of the sizes
    if (problem && broken_rule(*problem, device, cell.config).empty())
      most = std::max(most, family.launch(*problem, device, cell.config).workspace_bytes);
  };
  const auto problem = Problem::of(range.at(cell.last));
  if (!problem) return 0;
  const Tile tile = family.tile(*problem, device, cell.config);
  const bool rows = (range.size == Size::m) != problem->swapped;
  const std::int64_t length = range.size == Size::k ? tile.k : rows ? tile.m : tile.n;
  for (std::int64_t size = first; size < cell.last;
       size = (size / std::max<std::int64_t>(1, length) + 1) * std::max<std::int64_t>(1, length))
    look(size);
  look(cell.last);
  return most;
}

}  // namespace

std::int64_t Resolver::prepare_range(const GemmRange& range, int threads) {
  const QuietLock lock(resolving_);
  const BestKey key = engine_.key_of(range.gemm, threads);
  std::int64_t workspace = 0;
  for (TunedRange& tuned : stored_.ranges.of(key, range.size, *engine_.store)) {
    const GemmRange& known = tuned.record.range;
    std::int64_t first = std::max(known.first, range.first);
    for (const RangeCell& cell : tuned.record.table.cells) {
      if (cell.last < first) continue;
      if (first > std::min(range.last(), known.last())) break;
      StoredKernel* const kernel = kernel_of(tuned, cell, *engine_.store, engine_.now);
      if (kernel == nullptr || !engine_.admission.make_ready(*kernel)) continue;
      RangeCell part = cell;
      part.last = std::min(cell.last, range.last());
      if (engine_.gpu)
        workspace = std::max(workspace, workspace_of(range, key.device, part, first));
      first = cell.last + 1;
    }
  }
  return workspace;
}

Result<RangePlan> Engine::plan(const GemmRange& range, int threads) {
  return shielded([&]() -> Result<RangePlan> {
    if (Status ok = validate(range); !ok) return tl::unexpected(ok.error());
    const auto count = impl_->threads_of(threads);
    if (!count) return tl::unexpected(count.error());
    const GemmRange full = impl_->with_defaults(range);
    auto plan = std::make_shared<RangePlan::Impl>(impl_, range, *count);
    plan->workspace_bytes = impl_->resolver.prepare_range(full, *count);
    return RangePlan(std::move(plan));
  });
}

Status RangePlan::run(std::int64_t size, const Operands& operands) const {
  return impl_->with_plan(
      size, [&](const Plan::Impl& plan) -> Status { return run_plan(plan, operands); });
}

Result<Match> RangePlan::match(std::int64_t size) const {
  return impl_->with_plan(size, [](const Plan::Impl& plan) -> Result<Match> { return plan.match; });
}

Result<std::string> RangePlan::config(std::int64_t size) const {
  return impl_->with_plan(
      size, [](const Plan::Impl& plan) -> Result<std::string> { return plan.config; });
}

std::int64_t RangePlan::workspace_bytes() const { return impl_->workspace_bytes; }

}  // namespace kiln
