// Barriers of all kinds, and what a lane gives or takes before it continues.
#include "runtime/emulator/barriers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/emulator/instructions.h"

namespace kiln::emu {
namespace {

/// What a barrier's 8 bytes hold, so that whoever writes over it is found out.
constexpr std::uint64_t kMark = 0x7265697272616271;
constexpr std::int64_t kMostBytes = (1 << 20) - 1;
constexpr std::uint32_t kMostArrivals = (1 << 20) - 1;

Machine& here() { return *Machine::current(); }

std::uint32_t place_of(std::uint32_t address) {
  return address & ((1u << SharedMemory::kRankShift) - 1);
}

Mbarrier& barrier_at(Machine& m, Block& block, std::uint32_t address, const char* what) {
  const auto found = block.mbarriers.find(place_of(address));
  if (found == block.mbarriers.end())
    m.refuse(fmt::format("{} at {:#x} of block {}, where no mbarrier was initialised", what,
                         address, block.rank));
  std::uint64_t mark = 0;
  std::memcpy(&mark, block.shared.at(address, 8), 8);
  if (mark != kMark)
    m.refuse(
        fmt::format("{}: mbarrier {:#x} of block {} was written over", what, address, block.rank));
  return found->second;
}

void settle(Machine& m, Block& block, std::uint32_t place, Mbarrier& barrier) {
  const auto parity = static_cast<std::uint32_t>(barrier.phase & 1);
  if (!barrier.settle()) return;
  for (const auto& lane : block.lanes)
    if (!lane->done && lane->wait.what == Wait::For::mbarrier && place_of(lane->wait.a) == place &&
        lane->wait.b == parity)
      m.wake(*lane);
}

void arrive(Machine& m, Block& block, std::uint32_t address, std::int64_t bytes) {
  Mbarrier& barrier = barrier_at(m, block, address, "arrival");
  if (barrier.pending == 0)
    m.refuse(fmt::format("one arrival too many at mbarrier {:#x}, which takes {} a phase", address,
                         barrier.arrivals));
  barrier.bytes += bytes;
  if (barrier.bytes > kMostBytes)
    m.refuse(fmt::format("mbarrier {:#x} expects {} bytes: at most {} can be counted", address,
                         barrier.bytes, kMostBytes));
  --barrier.pending;
  settle(m, block, place_of(address), barrier);
}

void mbarrier_init(unsigned address, unsigned arrivals) {
  Machine& m = here();
  Block& block = *m.lane().block;
  if (arrivals == 0 || arrivals > kMostArrivals)
    m.refuse(fmt::format("mbarrier {:#x} of {} arrivals", address, arrivals));
  if (address % 8 != 0) m.refuse(fmt::format("mbarrier {:#x} is not 8-byte aligned", address));
  std::memcpy(shared_at(m, address, 8, "mbarrier"), &kMark, 8);
  block.mbarriers[place_of(address)] = {arrivals, arrivals, 0, 0, m.lane().index, false};
  m.pause();
}

void mbarrier_init_fence() {
  const Lane& lane = here().lane();
  for (auto& [place, barrier] : lane.block->mbarriers)
    if (barrier.maker == lane.index) barrier.fenced = true;
}

void mbarrier_arrive(unsigned address, unsigned expected_bytes) {
  Machine& m = here();
  m.pause();
  m.show_stores(m.lane());
  arrive(m, m.block_at(address), address, expected_bytes);
}

void mbarrier_arrive_at(unsigned address, unsigned rank) {
  Machine& m = here();
  m.pause();
  m.show_stores(m.lane());
  const std::uint32_t there = place_of(address) | rank << SharedMemory::kRankShift;
  Block& block = m.block_at(there);
  if (block.rank != m.lane().block->rank && !barrier_at(m, block, there, "arrival").fenced)
    m.refuse(
        fmt::format("arrival at mbarrier {:#x} of block {}, whose initialisation no fence has "
                    "made visible",
                    address, rank));
  for (const auto& lane : block.lanes)
    if (!lane->done) return arrive(m, block, there, 0);
  m.refuse(fmt::format("arrival at mbarrier {:#x} of block {}, which has ended", address, rank));
}

void shared_send(unsigned to, const void* from, unsigned bytes, unsigned barrier, unsigned rank) {
  Machine& m = here();
  m.pause();
  const std::uint32_t there = place_of(to) | rank << SharedMemory::kRankShift;
  Block& block = m.block_at(there);
  if (std::all_of(block.lanes.begin(), block.lanes.end(), [](const auto& l) { return l->done; }))
    m.refuse(fmt::format("bytes sent to {:#x} of block {}, which has ended", to, rank));
  unsigned char* at = block.shared.at(there, bytes);
  if (at == nullptr || to % bytes != 0 || bytes > 16)
    m.refuse(
        fmt::format("{} bytes sent to {:#x}: not aligned, or outside the shared memory of "
                    "block {}",
                    bytes, to, rank));
  std::array<unsigned char, 16> sent{};
  std::memcpy(sent.data(), from, bytes);
  std::memset(at, SharedMemory::kPoison, bytes);
  m.later(
      [&m, &block, at, sent, bytes, place = place_of(barrier)] {
        std::memcpy(at, sent.data(), bytes);
        bytes_arrived(m, block, place, bytes);
      },
      m.lane());
}

void mbarrier_wait(unsigned address, unsigned parity) {
  Machine& m = here();
  m.pause();
  Block& block = *m.lane().block;
  const Mbarrier& barrier = barrier_at(m, block, address, "wait");
  if (parity > 1) m.refuse(fmt::format("wait at mbarrier {:#x} for parity {}", address, parity));
  // Otherwise the phase before this one had that parity.
  if ((barrier.phase & 1) == parity) m.wait({Wait::For::mbarrier, address, parity});
  m.lane().copiers = barrier.copiers_before;
}

void barrier(int id, int threads, int waits) {
  Machine& m = here();
  m.pause();
  m.show_stores(m.lane());
  Block& block = *m.lane().block;
  const int all = static_cast<int>(block.lanes.size());
  const int wanted = threads == 0 ? all : threads;
  if (id < 0 || id >= static_cast<int>(block.barriers.size()))
    m.refuse(fmt::format("barrier {}: there are {}", id, block.barriers.size()));
  if (wanted > all || wanted % static_cast<int>(block.warps.front()->lanes.size()) != 0)
    m.refuse(fmt::format("barrier {} of {} threads in a block of {}", id, wanted, all));
  NamedBarrier& b = block.barriers[static_cast<std::size_t>(id)];
  if (b.arrived != 0 && b.threads != wanted)
    m.refuse(
        fmt::format("barrier {} takes {} threads here and {} elsewhere", id, wanted, b.threads));
  b.threads = wanted;
  const Wait wait{Wait::For::barrier, static_cast<std::uint32_t>(id),
                  static_cast<std::uint32_t>(wanted)};
  if (++b.arrived == wanted) {
    b = {};
    m.wake(block, wait);
  } else if (waits != 0) {
    m.wait(wait);
  }
}

/// AMD's s_barrier: it does not wait for stores, which is what fences around it are for.
void bare_barrier() {
  Machine& m = here();
  m.pause();
  Block& block = *m.lane().block;
  NamedBarrier& b = block.barriers[0];
  const Wait wait{Wait::For::barrier, 0, static_cast<std::uint32_t>(block.lanes.size())};
  if (++b.arrived < static_cast<int>(block.lanes.size())) return m.wait(wait);
  b = {};
  m.wake(block, wait);
}

void cluster_barrier() {
  Machine& m = here();
  m.pause();
  m.show_stores(m.lane());
  std::size_t waiting = 1, all = 0;
  for (const auto& block : m.cluster()) {
    all += block->lanes.size();
    for (const auto& lane : block->lanes) waiting += lane->wait.what == Wait::For::cluster;
  }
  if (waiting < all) return m.wait({Wait::For::cluster});
  for (const auto& block : m.cluster()) m.wake(*block, {Wait::For::cluster});
}

void warp_barrier() {
  Machine& m = here();
  m.show_stores(m.lane());
  if (m.gather("a warp's barrier", nullptr)) m.finish(*m.lane().warp);
}

/// Registers that the block's warps hold.
int held(const Block& block) {
  int all = 0;
  for (const auto& warp : block.warps)
    all += warp->registers * static_cast<int>(warp->lanes.size());
  return all;
}

/// A warp that asks for more waits until others have given theirs back.
void set_registers(int count, int more) {
  Machine& m = here();
  if (count < 24 || count > 256 || count % 8 != 0)
    m.refuse(fmt::format("setmaxnreg to {} registers", count));
  Warp& warp = *m.lane().warp;
  if (!m.gather(more != 0 ? "setmaxnreg.inc" : "setmaxnreg.dec", nullptr)) return;
  Block& block = *warp.block;
  const auto room = [&] {
    const int lanes = static_cast<int>(warp.lanes.size());
    return held(block) + (count - warp.registers) * lanes <= m.device().gpu.registers_unit;
  };
  while (count > warp.registers && !room())
    m.wait({Wait::For::registers, static_cast<std::uint32_t>(count)});
  warp.registers = count;
  m.finish(warp);
  for (const auto& lane : block.lanes)
    if (!lane->done && lane->wait.what == Wait::For::registers) m.wake(*lane);
}

void grid_wait() { here().lane().saw_previous_grid = true; }

}  // namespace

void copies_arrived(Machine& m, const Lane& lane, std::uint32_t barrier) {
  barrier_at(m, *lane.block, barrier, "arrival").copiers.push_back(lane.index);
  arrive(m, *lane.block, barrier, 0);
}

void bytes_arrived(Machine& m, Block& block, std::uint32_t place, std::int64_t bytes) {
  const std::uint32_t address = place | block.rank << SharedMemory::kRankShift;
  Mbarrier& barrier = barrier_at(m, block, address, "bytes of a copy");
  if (!barrier.fenced)
    m.refuse(
        fmt::format("bytes of a copy for mbarrier {:#x}, whose initialisation no fence has "
                    "made visible to the copy engine",
                    address));
  barrier.bytes -= bytes;
  if (barrier.bytes < -kMostBytes)
    m.refuse(
        fmt::format("mbarrier {:#x} got {} bytes that it never expected", address, -barrier.bytes));
  settle(m, block, place, barrier);
}

void add_barriers(KilnEmuOps& to) {
  to.barrier = barrier;
  to.bare_barrier = bare_barrier;
  to.cluster_barrier = cluster_barrier;
  to.warp_barrier = warp_barrier;
  to.mbarrier_init = mbarrier_init;
  to.mbarrier_init_fence = mbarrier_init_fence;
  to.mbarrier_arrive = mbarrier_arrive;
  to.mbarrier_arrive_at = mbarrier_arrive_at;
  to.mbarrier_wait = mbarrier_wait;
  to.shared_send = shared_send;
  to.set_registers = set_registers;
  to.grid_wait = grid_wait;
}

}  // namespace kiln::emu
