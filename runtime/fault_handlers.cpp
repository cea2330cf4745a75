#include "runtime/fault_handlers.h"

#include <array>
#include <condition_variable>
#include <mutex>
#include <new>
#include <set>

#include "runtime/fork_gate.h"

namespace kiln {
namespace {

struct Turns {
  std::mutex mutex;
  std::condition_variable changed;
  std::array<int, 2> inside{};
  std::array<std::set<std::uint64_t>, 2> waiting;  // by the order in which they came
  std::uint64_t came = 0;
};

/// Never destroyed. A forked child begins afresh: threads that were inside are not there.
Turns& turns() {
  static Turns& all = []() -> Turns& {
    ForkGate::at_fork({nullptr, nullptr, [] { new (&turns()) Turns; }});
    return *new Turns;
  }();
  return all;
}

}  // namespace

FaultHandlers::FaultHandlers(FaultSide side) : side_(static_cast<std::size_t>(side)) {
  Turns& t = turns();
  std::unique_lock lock(t.mutex);
  const std::size_t other = 1 - side_;
  const auto mine = t.waiting[side_].insert(++t.came).first;
  t.changed.wait(lock, [&] {
    const auto& before = t.waiting[other];
    return t.inside[other] == 0 && (before.empty() || *before.begin() > *mine);
  });
  t.waiting[side_].erase(mine);
  ++t.inside[side_];
  lock.unlock();
  t.changed.notify_all();  // who waited for this one to go first
}

FaultHandlers::~FaultHandlers() {
  Turns& t = turns();
  {
    const std::lock_guard lock(t.mutex);
    if (--t.inside[side_] > 0) return;
  }
  t.changed.notify_all();
}

}  // namespace kiln
