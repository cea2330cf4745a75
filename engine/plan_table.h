// Plans by problem and threads, for readers that take no lock: open addressing behind an atomic
// pointer. Writers hold a mutex, only ever fill empty slots or swap a slot's plan, and grow by
// copying; superseded tables and plans are freed with the Engine, so a reader never holds a freed
// one. The number of problems is limited: a program may call any number of sizes.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/plan.h"

namespace kiln {

class PlanTable {
 public:
  static constexpr std::size_t kMost = 16384;

  /// Takes no more than `most` problems.
  explicit PlanTable(std::size_t most = kMost);

  /// Lock-free, allocation-free; null when absent.
  const Plan::Impl* find(const PlanKey& key, std::uint64_t hash) const {
    const Table* table = current_.load(std::memory_order_acquire);
    for (std::size_t i = hash & table->mask;; i = (i + 1) & table->mask) {
      const Plan::Impl* plan = table->slots[i].load(std::memory_order_acquire);
      if (plan == nullptr) return nullptr;
      if (plan->hash == hash && plan->key == key) return plan;
    }
  }

  /// Adds, or takes the place of the plan with the same key, and marks the plan as `in_table`: it
  /// lives as long as this. Does neither where the key is new and the table is full.
  void put(std::shared_ptr<const Plan::Impl> plan);
  /// Every plan that is in use now.
  std::vector<std::shared_ptr<const Plan::Impl>> all() const;

 private:
  struct Table {
    explicit Table(std::size_t size) : mask(size - 1), slots(size) {}
    std::size_t mask;  // size is a power of two
    std::vector<std::atomic<const Plan::Impl*>> slots;
  };
  static void insert(Table& table, const Plan::Impl* plan);

  const std::size_t most_;
  std::atomic<const Table*> current_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Table>> tables_;            // the last is the current one
  std::vector<std::shared_ptr<const Plan::Impl>> plans_;  // everything ever put
  std::size_t used_ = 0;                                  // filled slots of the current table
};

}  // namespace kiln
