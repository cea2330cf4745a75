#include "runtime/emulator/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kiln::emu {
namespace {

namespace context = boost::context::detail;

constexpr std::size_t kStackBytes = 64 << 10;
/// Of so many places where a lane may be held up for a while one is taken; lanes held up for long.
constexpr std::size_t kPauseOneIn = 128, kMostHeldUp = 8;
/// Turns of warps, and work in products that counts as turns, until a run is taken to be without
/// end, as after sizes read from overwritten memory. The longest of the tests has a twelfth of it
/// in turns of warps.
constexpr std::int64_t kMostTurns = std::int64_t{1} << 22;

thread_local Machine* current_machine = nullptr;

KilnEmuPoint point(const Dim3& d) { return {d.x, d.y, d.z}; }

KilnEmuPoint unravel(std::int64_t at, const Dim3& sizes) {
  return {static_cast<unsigned>(at % sizes.x), static_cast<unsigned>(at / sizes.x % sizes.y),
          static_cast<unsigned>(at / sizes.x / sizes.y)};
}

}  // namespace

Scheduling Scheduling::drawn(std::uint64_t seed) {
  Scheduling policy;
  policy.seed = seed;
  if (seed == 0) return policy;
  Chance chance(seed);
  policy.order = chance.one_in(2) ? Order::random : Order::priorities;
  constexpr Landing kLandings[] = {Landing::at_once, Landing::any_time, Landing::any_time,
                                   Landing::late};
  policy.landing = kLandings[chance.below(4)];
  return policy;
}

std::string describe(const Lane& lane) {
  const auto& b = lane.block->index;
  return fmt::format("block ({}, {}, {}) thread {} (warp {}, lane {})", b.x, b.y, b.z, lane.index,
                     lane.warp->index, lane.index - lane.warp->lanes.front()->index);
}

std::string describe(const Wait& wait) {
  switch (wait.what) {
    case Wait::For::nothing:
    case Wait::For::preempted:
    case Wait::For::all_others:
      return "nothing";
    case Wait::For::warp:
      return "the rest of its warp";
    case Wait::For::barrier:
      return fmt::format("barrier {} of {} threads", wait.a, wait.b);
    case Wait::For::cluster:
      return "the cluster's barrier";
    case Wait::For::mbarrier:
      return fmt::format("mbarrier {:#x}, the end of a phase of parity {}", wait.a, wait.b);
    case Wait::For::products:
      return fmt::format("the warpgroup's product number {}", wait.a);
    case Wait::For::registers:
      return fmt::format("{} registers", wait.a);
    case Wait::For::copies:
      return fmt::format("all but {} groups of copies", wait.a);
  }
  return {};
}

Machine::Machine(const DeviceCaps& device) : device_(device) {}
Machine::~Machine() = default;
Machine* Machine::current() { return current_machine; }

Status Machine::run(const Grid& grid, std::int64_t first, std::int64_t count,
                    const Scheduling& policy) {
  grid_ = &grid;
  policy_ = policy;
  chance_ = Chance(policy.seed * 1000003 + static_cast<std::uint64_t>(first) + 1);
  current_machine = this;
  refused_ = false;
  turns_ = 0;
  try {
    prepare(first, count);
    schedule();
    if (!refused_) check_end();
  } catch (const Refused&) {
  }
  current_machine = nullptr;
  running_ = nullptr;
  landing_for_ = nullptr;
  in_flight_.clear();
  held_up_.clear();
  if (refused_) return fail(ErrorCode::device, why_);
  return {};
}

void Machine::prepare(std::int64_t first, std::int64_t count) {
  const GpuStep& step = *grid_->step;
  const std::int64_t of_cluster = step.cluster.count();
  const auto wanted = static_cast<std::size_t>(of_cluster * count);
  while (blocks_.size() < wanted)
    blocks_.push_back(
        std::make_unique<Block>(static_cast<std::size_t>(device_.gpu.shared_block_bytes)));
  blocks_.resize(wanted);
  warps_.clear();
  left_ = 0;
  if (step.dynamic_shared_bytes > device_.gpu.shared_block_bytes)
    refuse(fmt::format("{} bytes of shared memory, the device has {}", step.dynamic_shared_bytes,
                       device_.gpu.shared_block_bytes));
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    Block& block = *blocks_[i];
    // Clusters lie along x, as the launches that kiln describes have them.
    block.index = unravel(first * of_cluster + static_cast<std::int64_t>(i), step.grid);
    block.rank = static_cast<std::uint32_t>(i % static_cast<std::size_t>(of_cluster));
    block.cluster = i - block.rank;
    prepare_block(block);
  }
}

void Machine::prepare_block(Block& block) {
  const GpuStep& step = *grid_->step;
  const auto threads = static_cast<std::size_t>(step.block.count());
  const auto wave = static_cast<std::size_t>(std::max(1, device_.gpu.wave));
  block.shared.reset(block.rank, static_cast<std::size_t>(step.dynamic_shared_bytes));
  block.mbarriers.clear();
  block.barriers = {};
  block.warpgroups.assign((threads + kWarpgroupLanes - 1) / kWarpgroupLanes, {});
  block.lanes.clear();
  block.warps.clear();
  for (std::size_t i = 0; i < threads; ++i) {
    if (i % wave == 0) {
      Warp& warp = *block.warps.emplace_back(std::make_unique<Warp>());
      warp.block = &block;
      warp.index = static_cast<int>(i / wave);
      warp.priority = chance_.next();
      // What a kernel starts with, were the registers shared out evenly.
      warp.registers = static_cast<int>(std::min<std::size_t>(
          256, static_cast<std::size_t>(device_.gpu.registers_unit) / threads / 8 * 8));
      warps_.push_back(&warp);
    }
    Lane& lane = *block.lanes.emplace_back(std::make_unique<Lane>());
    lane.index = static_cast<int>(i);
    lane.block = &block;
    lane.warp = block.warps.back().get();
    lane.self = {unravel(static_cast<std::int64_t>(i), step.block), block.index, point(step.block),
                 point(step.grid)};
    if (stacks_.size() <= left_) stacks_.emplace_back(kStackBytes);
    lane.stack = stacks_[left_++].data();
    lane.context = context::make_fcontext(lane.stack + kStackBytes, kStackBytes, &Machine::start);
    lane.warp->lanes.push_back(&lane);
    ++lane.warp->ready;
  }
}

void Machine::start(context::transfer_t from) {
  auto& machine = *static_cast<Machine*>(from.data);
  machine.scheduler_ = from.fctx;
  machine.grid_->entry(machine.grid_->args, machine.grid_->maps.data());
  Lane& lane = machine.lane();
  machine.show_stores(lane);
  lane.done = true;
  --lane.warp->ready;
  --machine.left_;
  machine.switch_out();
}

void Machine::schedule() {
  while (left_ != 0 && !refused_) {
    spend(1);
    if (policy_.landing == Landing::any_time && !in_flight_.empty() && chance_.one_in(4))
      land_one();
    if (Warp* warp = pick()) {
      run_warp(*warp);
    } else if (!in_flight_.empty()) {
      land_one();
    } else if (!held_up_.empty()) {
      std::swap(held_up_[chance_.below(held_up_.size())], held_up_.back());
      wake(*held_up_.back());
      held_up_.pop_back();
    } else {
      refuse(fmt::format("deadlock, no lane can continue: {}", stuck()));
    }
  }
}

void Machine::spend(std::int64_t turns) {
  turns_ += turns;
  if (turns_ > kMostTurns) refuse(fmt::format("no end in sight after {} turns", turns_));
}

Warp* Machine::pick() {
  Warp* best = nullptr;
  std::size_t able = 0;
  for (Warp* warp : warps_) {
    if (warp->ready == 0) continue;
    ++able;
    const bool better =
        best == nullptr || (policy_.order == Order::random ? chance_.one_in(able)
                                                           : policy_.order == Order::priorities &&
                                                                 warp->priority > best->priority);
    if (better) best = warp;
  }
  if (best != nullptr && policy_.order == Order::priorities && chance_.one_in(48))
    best->priority = chance_.one_in(2) ? 0 : chance_.next();
  return best;
}

void Machine::run_warp(Warp& warp) {
  const std::size_t lanes = warp.lanes.size();
  const std::size_t first = policy_.order == Order::sequential ? 0 : chance_.below(lanes);
  const bool backwards = policy_.order != Order::sequential && chance_.one_in(2);
  for (std::size_t i = 0; i < lanes && !refused_; ++i) {
    Lane& lane = *warp.lanes[(first + (backwards ? lanes - i : i)) % lanes];
    if (lane.done) continue;
    const auto what = lane.wait.what;
    if (what != Wait::For::nothing && what != Wait::For::preempted) continue;
    lane.wait = {};
    resume(lane);
    if (lane.wait.what == Wait::For::preempted && chance_.one_in(2)) return;
  }
}

void Machine::resume(Lane& lane) {
  running_ = &lane;
  lane.context = context::jump_fcontext(lane.context, this).fctx;
  running_ = nullptr;
}

void Machine::switch_out() {
  // Another lane's return is where the scheduler stands next.
  scheduler_ = context::jump_fcontext(scheduler_, nullptr).fctx;
}

void Machine::wait(Wait wait) {
  running_->wait = wait;
  --running_->warp->ready;
  switch_out();
}

void Machine::pause(std::size_t hold_one_in) {
  if (policy_.order == Order::sequential) return;
  if (held_up_.size() < kMostHeldUp && chance_.one_in(hold_one_in)) {
    held_up_.push_back(running_);
    return wait({Wait::For::all_others});
  }
  if (!chance_.one_in(kPauseOneIn)) return;
  running_->wait = {Wait::For::preempted};
  switch_out();
}

void Machine::wake(Lane& lane) {
  lane.wait = {};
  ++lane.warp->ready;
}

void Machine::wake(Block& block, const Wait& wait) {
  for (const auto& lane : block.lanes)
    if (!lane->done && lane->wait.what == wait.what && lane->wait.a == wait.a &&
        lane->wait.b == wait.b)
      wake(*lane);
}

void Machine::refuse(std::string why) {
  const Lane* lane = running_ != nullptr ? running_ : landing_for_;
  why_ = lane != nullptr ? describe(*lane) + ": " + why : std::move(why);
  refused_ = true;
  if (running_ == nullptr) throw Refused{};
  for (;;) switch_out();
}

std::span<const std::unique_ptr<Block>> Machine::cluster() const {
  const Lane* lane = running_ != nullptr ? running_ : landing_for_;
  return std::span(blocks_).subspan(lane->block->cluster,
                                    static_cast<std::size_t>(grid_->step->cluster.count()));
}

Block& Machine::block_at(std::uint32_t address) {
  const std::size_t rank = address >> SharedMemory::kRankShift;
  const auto blocks = cluster();
  if (rank >= blocks.size())
    refuse(fmt::format("shared memory {:#x}: no block {} in a cluster of {}", address, rank,
                       blocks.size()));
  return *blocks[rank];
}

void Machine::later(std::function<void()> land, const Lane& owner) {
  if (at_once()) {
    const Lane* outer = std::exchange(landing_for_, &owner);
    land();
    landing_for_ = outer;
  } else {
    in_flight_.push_back({std::move(land), &owner});
  }
}

void Machine::land_one() {
  const std::size_t which = chance_.below(in_flight_.size());
  std::swap(in_flight_[which], in_flight_.back());
  const InFlight copy = std::move(in_flight_.back());
  in_flight_.pop_back();
  landing_for_ = copy.owner;
  // An exception cannot cross the frame that a signal interrupted.
  if (setjmp(landing_fault_) != 0) throw Refused{};
  copy.land();
  landing_for_ = nullptr;
}

void Machine::store(Lane& lane, unsigned char* to, const void* from, std::size_t bytes) {
  PendingStore store{to, static_cast<std::uint8_t>(bytes), {}};
  std::memcpy(store.data, from, bytes);
  lane.stores.push_back(store);
  if (at_once()) show_stores(lane);
}

void Machine::show_stores(Lane& lane) {
  SharedMemory& shared = lane.block->shared;
  for (const PendingStore& store : lane.stores) {
    std::memcpy(store.to, store.data, store.bytes);
    shared.stored(*shared.address(store.to), store.bytes,
                  static_cast<std::uint16_t>(lane.index + 1));
  }
  lane.stores.clear();
}

bool Machine::gather(const char* what, void* brought) {
  Warp& warp = *running_->warp;
  Collective& c = warp.collective;
  if (c.arrived == 0) {
    c.what = what;
    c.brought.assign(warp.lanes.size(), nullptr);
  } else if (std::string_view(c.what) != what) {
    refuse(fmt::format("{} while other lanes of the warp are at {}", what, c.what));
  }
  c.brought[static_cast<std::size_t>(running_->index - warp.lanes.front()->index)] = brought;
  if (++c.arrived == static_cast<int>(warp.lanes.size())) return true;
  wait({Wait::For::warp});
  return false;
}

void Machine::finish(Warp& warp) {
  warp.collective.arrived = 0;
  for (Lane* lane : warp.lanes)
    if (!lane->done && lane->wait.what == Wait::For::warp) wake(*lane);
}

void Machine::check_end() {
  for (const auto& block : blocks_) {
    for (const auto& [place, barrier] : block->mbarriers)
      if (barrier.bytes != 0)
        refuse(fmt::format("block {} ended while mbarrier {:#x} expected {} bytes", block->rank,
                           place, barrier.bytes));
    for (const auto& lane : block->lanes) {
      landing_for_ = lane.get();
      if (!lane->products.held.empty()) refuse("ended with products in flight");
      int unread = lane->bulk.open->unread;
      for (const auto& group : lane->bulk.groups) unread += group->unread;
      if (unread != 0) refuse("ended before copies had read its shared memory");
      landing_for_ = nullptr;
    }
  }
  while (!in_flight_.empty()) land_one();
  for (const auto& block : blocks_)
    if (auto damage = block->shared.damage()) refuse(*damage);
}

std::string Machine::stuck() const {
  std::string out;
  for (const Warp* warp : warps_) {
    // One line for lanes that wait for the same.
    const Lane* said = nullptr;
    for (const Lane* lane : warp->lanes) {
      if (lane->done) continue;
      if (said != nullptr && said->wait.what == lane->wait.what && said->wait.a == lane->wait.a &&
          said->wait.b == lane->wait.b)
        continue;
      said = lane;
      out += fmt::format("\n  {} waits for {}", describe(*lane), describe(lane->wait));
      if (lane->wait.what == Wait::For::warp) out += fmt::format(" at {}", warp->collective.what);
    }
  }
  return out;
}

unsigned char* Machine::lane_stack_top() const {
  return running_ != nullptr ? running_->stack + kStackBytes : nullptr;
}

void Machine::faulted(Trap trap, const void* address) {
  std::string what = fmt::format("memory at {} is not the kernel's to touch", address);
  const Lane* lane = running_ != nullptr ? running_ : landing_for_;
  if (trap == Trap::index) what = "an index lies outside its array, or an address is misaligned";
  if (trap == Trap::division) what = "a division by zero";
  if (trap == Trap::access && lane != nullptr) {
    if (lane->block->shared.owns(address)) what = "an access lies outside shared memory";
    for (const Arena& stack : stacks_)
      if (stack.owns(address)) what = "the lane's stack is full, or an index lies outside it";
  }
  if (running_ != nullptr) refuse(std::move(what));
  why_ = (lane != nullptr ? describe(*lane) + ": " : "") + what;
  refused_ = true;
  std::longjmp(landing_fault_, 1);
}

}  // namespace kiln::emu
