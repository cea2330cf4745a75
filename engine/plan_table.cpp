#include "engine/plan_table.h"

#include "runtime/quiet_lock.h"

namespace kiln {
namespace {

constexpr std::size_t kFirstSize = 64;

}  // namespace

PlanTable::PlanTable(std::size_t most) : most_(most) {
  tables_.push_back(std::make_unique<Table>(kFirstSize));
  current_.store(tables_.back().get(), std::memory_order_release);
}

void PlanTable::insert(Table& table, const Plan::Impl* plan) {
  std::size_t i = plan->hash & table.mask;
  for (;; i = (i + 1) & table.mask) {
    const Plan::Impl* there = table.slots[i].load(std::memory_order_relaxed);
    if (there == nullptr || there->key == plan->key) break;
  }
  table.slots[i].store(plan, std::memory_order_release);
}

void PlanTable::put(std::shared_ptr<const Plan::Impl> plan) {
  const QuietLock lock(mutex_);
  const bool fresh = find(plan->key, plan->hash) == nullptr;
  if (fresh && used_ >= most_) return;
  plan->in_table = true;
  plans_.push_back(std::move(plan));
  const Plan::Impl* added = plans_.back().get();
  Table& table = *tables_.back();
  // At most half full: probes stay short and always end.
  if (!fresh || (used_ + 1) * 2 <= table.slots.size()) {
    insert(table, added);
    used_ += fresh;
    return;
  }
  auto larger = std::make_unique<Table>(table.slots.size() * 2);
  for (const auto& slot : table.slots)
    if (const Plan::Impl* old = slot.load(std::memory_order_relaxed)) insert(*larger, old);
  insert(*larger, added);
  ++used_;
  tables_.push_back(std::move(larger));
  current_.store(tables_.back().get(), std::memory_order_release);
}

std::vector<std::shared_ptr<const Plan::Impl>> PlanTable::all() const {
  const QuietLock lock(mutex_);
  std::vector<std::shared_ptr<const Plan::Impl>> plans;
  for (const auto& slot : tables_.back()->slots)
    if (const Plan::Impl* plan = slot.load(std::memory_order_relaxed))
      plans.push_back(plan->shared_from_this());
  return plans;
}

}  // namespace kiln
