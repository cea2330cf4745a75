// Tuned ranges of this engine's device and of its relatives: from a size to a stored kernel that
// serves it.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/rows/range_table.h"
#include "engine/stored_kernels.h"

namespace kiln {

/// A range's table with the kernels that it names.
struct TunedRange {
  RangeRecord record;
  /// By the size that each was tuned for, read when first asked for; null: it is not stored, or
  /// serves no other size.
  std::map<std::int64_t, std::unique_ptr<StoredKernel>> kernels = {};
};

/// Read from the store once for each device and number of threads: most problems are of no range,
/// and a query for each would be most of a miss. Not thread-safe.
class TunedRanges {
 public:
  /// Those that differ from the key's problem in `size` alone, the narrowest first. Valid until
  /// forget().
  std::vector<TunedRange>& of(const BestKey& key, Size size, Store& store);
  /// After a search: a winner or a table is new.
  void forget() { known_.clear(); }

 private:
  struct Key {
    PlanKey rest;
    Size size;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return hash_of(key.rest); }
  };
  using Tables = std::unordered_map<Key, std::vector<TunedRange>, Hash>;
  Tables& tables_of(const BestKey& key, Store& store);

  std::vector<std::pair<DeviceCaps, Tables>> known_;  // few
  std::vector<TunedRange> none_;
};

/// The kernel of a cell; null where it cannot serve.
StoredKernel* kernel_of(TunedRange& range, const RangeCell& cell, Store& store,
                        const Validators& now);

}  // namespace kiln
