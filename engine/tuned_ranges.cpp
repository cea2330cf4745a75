#include "engine/tuned_ranges.h"

#include <algorithm>

#include "cache/keys.h"
#include "cache/records/ranges.h"
#include "cache/records/winners.h"
#include "cache/rows/range_kernels.h"
#include "generator/problem/size.h"
#include "tuner/verify/envelope.h"

namespace kiln {

TunedRanges::Tables& TunedRanges::tables_of(const BestKey& key, Store& store) {
  const auto entry = std::ranges::find(known_, key.device, [](const auto& x) { return x.first; });
  if (entry != known_.end()) return entry->second;
  Tables& tables = known_.emplace_back(key.device, Tables{}).second;
  for (RangeRecord& record : store.ranges().of(key)) {
    const Size varying = record.range.size;
    const Gemm rest = without_size(normalised(record.key.gemm), varying);
    tables[{plan_key(rest, key.device.compute_units), varying}].push_back({std::move(record)});
  }
  for (auto& [problems, ranges] : tables)
    std::ranges::stable_sort(ranges, {}, [](const TunedRange& range) {
      return range.record.range.last() - range.record.range.first;
    });
  return tables;
}

std::vector<TunedRange>& TunedRanges::of(const BestKey& key, Size size, Store& store) {
  Tables& tables = tables_of(key, store);
  if (tables.empty()) return none_;
  const auto ranges =
      tables.find({plan_key(without_size(key.gemm, size), key.device.compute_units), size});
  return ranges == tables.end() ? none_ : ranges->second;
}

StoredKernel* kernel_of(TunedRange& range, const RangeCell& cell, Store& store,
                        const Validators& now) {
  const auto [entry, fresh] = range.kernels.try_emplace(cell.tuned_at);
  std::unique_ptr<StoredKernel>& kernel = entry->second;
  if (fresh) {
    BestKey key = range.record.key;
    key.gemm = normalised(range.record.range.at(cell.tuned_at));
    key.policy = range_policy(key.policy, range.record.range);
    const auto problem = Problem::of(key.gemm);  // a file may say any size
    if (!problem) return nullptr;
    auto record = store.winners().best(key, now);
    if (!record || !record->measured.verified) return nullptr;
    const Config& config = record->measured.config;
    if (!broken_rule(*problem, key.device, config).empty() ||
        !has_envelope(key.gemm, key.device, config))
      return nullptr;
    record->image.clear();  // loaded by its key
    record->source.clear();
    kernel = std::make_unique<StoredKernel>(
        StoredKernel{.row = {.config = config, .binary_key = record->measured.binary_key},
                     .like = std::make_shared<const BestKey>(key),
                     .record = {},
                     .code = {},
                     .proved = {},
                     .code_class = {}});
    kernel->record = std::move(record);
  }
  // A table and the rows of its kernels may come from different files.
  return kernel && kernel->config() == cell.config ? kernel.get() : nullptr;
}

}  // namespace kiln
