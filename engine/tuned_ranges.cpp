#include "engine/tuned_ranges.h"

#include <algorithm>

#include "cache/keys.h"
#include "generator/problem/size.h"
#include "tuner/verify/envelope.h"

namespace kiln {

std::vector<TunedRange>& TunedRanges::of(const BestKey& key, Size size, Store& store) {
  const int threads = key.device.compute_units;
  const auto rest = [&](const Gemm& gemm, Size varying) {
    return Key{plan_key(without_size(gemm, varying), threads), varying};
  };
  if (read_.insert(threads).second) {
    for (RangeRecord& record : store.ranges_of(key)) {
      const Size varying = record.range.size;
      known_[rest(record.key.gemm, varying)].push_back({std::move(record)});
    }
    for (auto& [problems, ranges] : known_)
      std::ranges::stable_sort(ranges, {}, [](const TunedRange& range) {
        return range.record.range.last() - range.record.range.first;
      });
  }
  if (known_.empty()) return none_;
  const auto ranges = known_.find(rest(key.gemm, size));
  return ranges == known_.end() ? none_ : ranges->second;
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
