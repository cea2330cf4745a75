// Plans that the machine's state decided, not the problem: no descriptor was free, no memory, no
// worker could be started. That passes, so the engine asks again: at the next call, and while it is
// refused again after 1, 2, 4, … calls, at most kLongest. Counts calls, reads no clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>

#include "engine/plan.h"

namespace kiln {

/// Not thread-safe.
class Unsettled {
 public:
  using Shared = std::shared_ptr<const Plan::Impl>;
  static constexpr int kLongest = 1024;
  /// Problems that are kept; a program may call any number of sizes.
  static constexpr std::size_t kMost = 4096;

  /// What this call runs; null: it is time to ask, or the problem is not here.
  Shared next(const PlanKey& key) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end() || found->second.left == 0) return nullptr;
    --found->second.left;
    return found->second.plan;
  }
  /// The machine has refused (again).
  void put(Shared plan) {
    const auto found = waiting_.find(plan->key);
    if (found == waiting_.end()) {
      if (waiting_.size() >= kMost) waiting_.clear();
      const PlanKey key = plan->key;
      waiting_.emplace(key, Waiting{std::move(plan), 0, 1});
      return;
    }
    Waiting& again = found->second;
    again.plan = std::move(plan);
    again.left = again.calls;
    again.calls = std::min(kLongest, 2 * again.calls);
  }
  /// It has another plan now.
  void settle(const PlanKey& key) {
    if (!waiting_.empty()) waiting_.erase(key);
  }

 private:
  struct Waiting {
    Shared plan;
    int left = 0;   // calls before the next question
    int calls = 1;  // as many after the next refusal
  };
  struct Hash {
    std::size_t operator()(const PlanKey& key) const { return hash_of(key); }
  };
  std::unordered_map<PlanKey, Waiting, Hash> waiting_;
};

}  // namespace kiln
