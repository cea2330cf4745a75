#include "engine/tuned_ranges.h"

#include <algorithm>

#include "generator/problem/size.h"
#include "tuner/verify/envelope.h"

namespace kiln {

std::vector<TunedRange>& TunedRanges::of(const BestKey& key, Size size, Store& store) {
  const PlanKey rest = plan_key(without_size(key.gemm, size), key.device.compute_units);
  const auto [entry, fresh] = known_.try_emplace({rest, size});
  std::vector<TunedRange>& ranges = entry->second;
  if (!fresh) return ranges;
  for (RangeRecord& record : store.ranges_like(key, size)) ranges.push_back({std::move(record)});
  std::ranges::stable_sort(ranges, {}, [](const TunedRange& range) {
    return range.record.range.last() - range.record.range.first;
  });
  return ranges;
}

StoredKernel* kernel_of(TunedRange& range, const RangeCell& cell, Store& store,
                        const Validators& now) {
  const auto [entry, fresh] = range.kernels.try_emplace(cell.tuned_at);
  std::unique_ptr<StoredKernel>& kernel = entry->second;
  if (fresh) {
    BestKey key = range.record.key;
    key.gemm = normalised(range.record.range.at(cell.tuned_at));
    auto record = store.best(key, now);
    if (!record || !record->measured.verified) return nullptr;
    const Config& config = record->measured.config;
    const Canonical problem = canonicalise(key.gemm);
    if (!broken_rule(problem, key.device, config).empty() ||
        !has_envelope(key.gemm, key.device, config))
      return nullptr;
    kernel = std::make_unique<StoredKernel>(
        StoredKernel{std::move(*record), code_class(problem, key.device, config), {}, {}});
    kernel->record.image.clear();  // loaded by its key
    kernel->record.source.clear();
  }
  // Another search of that size may have found another kernel since.
  return kernel && kernel->record.measured.config == cell.config ? kernel.get() : nullptr;
}

}  // namespace kiln
