// A few clusters of blocks at a time, every lane a fiber on the calling thread: who runs next, who
// waits for what, what is still in flight. Lanes run until an instruction makes them wait; the
// order is drawn from a seed. Knows waiting and waking; what instructions mean is in barriers,
// copies and products.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <csetjmp>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generator/problem/device_caps.h"
#include "generator/space/gpu_launch.h"
#include "kiln/error.hpp"
#include "runtime/emulator/barriers.h"
#include "runtime/emulator/shared_memory.h"
#include "runtime/emulator/warpgroup.h"
#include "templates/cuda/common/abi.h"
#include "templates/emu/abi.h"

namespace kiln::emu {

/// Seeded choices (xorshift): the same seed gives the same run.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x853c49e6748fea9b) {}
  std::uint64_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_;
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>((next() >> 11) % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

/// Who runs next: the first that can, any, or the one of the highest priority, which drops now and
/// then, so that some warps fall far behind.
enum class Order : std::uint8_t { sequential, random, priorities };
/// When asynchronous work happens: at once, at any time, or when nothing else can continue.
enum class Landing : std::uint8_t { at_once, any_time, late };

struct Scheduling {
  Order order = Order::sequential;
  Landing landing = Landing::late;
  std::uint64_t seed = 0;
  /// Seed 0: lanes in order, copies late. Others draw all three.
  static Scheduling drawn(std::uint64_t seed);
};

struct Block;
struct Warp;

struct Wait {
  enum class For : std::uint8_t {
    nothing,
    warp,     // the other lanes, at a collective instruction
    barrier,  // a: number, b: lanes it takes
    cluster,
    mbarrier,   // a: address, b: parity
    products,   // a: how many of the warpgroup's
    registers,  // a: how many a lane
    copies,     // a: how many may be left
    preempted,  // nothing: it may continue at any time
    all_others  // until they can do no more
  };
  For what = For::nothing;
  std::uint32_t a = 0, b = 0;
};

/// Copies of one lane that it waits for in the order of their issue.
struct CopyQueue {
  struct Group {
    int unread = 0, unwritten = 0;
  };
  std::vector<std::shared_ptr<Group>> groups;  // committed
  std::shared_ptr<Group> open = std::make_shared<Group>();
};

/// An arrival at an mbarrier that waits for copies.
struct CopyArrival {
  std::uint32_t barrier;
  int missing;  // copies
};
/// A copy of one lane on its way, and who waits for it.
struct Copy {
  std::vector<std::shared_ptr<CopyArrival>> arrivals;
};

/// A store to shared memory that other lanes do not see yet.
struct PendingStore {
  unsigned char* to;
  std::uint8_t bytes;
  unsigned char data[16];
};

struct Lane {
  boost::context::detail::fcontext_t context = nullptr;
  KilnEmuLane self{};
  int index = 0;  // in the block
  Block* block = nullptr;
  Warp* warp = nullptr;
  Wait wait;
  bool done = false;
  bool saw_previous_grid = false;
  CopyQueue bulk, copies;
  std::vector<const void*> acquired_maps;
  std::vector<int> copiers;  // lanes for whose copies it has waited at an mbarrier
  std::vector<std::shared_ptr<Copy>> on_their_way;
  std::vector<std::shared_ptr<CopyQueue::Group>> loads;  // AMD's, oldest first
  std::vector<PendingStore> stores;
  WarpgroupLane products;
  unsigned char* stack = nullptr;
};

/// A collective instruction in the making: the lanes that came, what each brought.
struct Collective {
  const char* what = nullptr;
  int arrived = 0;
  std::vector<void*> brought;
};

struct Warp {
  Block* block = nullptr;
  int index = 0;
  std::vector<Lane*> lanes;
  int ready = 0;  // lanes that can run
  std::uint64_t priority = 0;
  Collective collective;
  int registers = 0;  // a lane
};

struct Block {
  explicit Block(std::size_t shared_bytes) : shared(shared_bytes) {}
  KilnEmuPoint index{};
  std::size_t cluster = 0;  // the first of its blocks among the machine's
  std::uint32_t rank = 0;
  SharedMemory shared;
  Mbarriers mbarriers;
  NamedBarriers barriers;
  std::vector<Warpgroup> warpgroups;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<std::unique_ptr<Warp>> warps;
};

using Entry = void (*)(const KilnGpuArgs*, const KilnTensorMap* const*);

/// One launch as a cluster sees it.
struct Grid {
  const GpuStep* step = nullptr;
  Entry entry = nullptr;
  const KilnGpuArgs* args = nullptr;
  std::vector<const KilnTensorMap*> maps;
  bool first = true;  // nothing was launched before it
};

/// What the processor refused to do for a lane; `index` is any trap of the compiler's, of an index
/// or of a misaligned address.
enum class Trap : std::uint8_t { access, index, division };

/// Not thread-safe; one a host thread.
class Machine {
 public:
  explicit Machine(const DeviceCaps& device);
  ~Machine();
  Machine(const Machine&) = delete;

  /// Runs clusters `first` to `first + count - 1` of the grid to their end, all at once. Errors:
  /// device, with block, lane and what was wrong; after one, the next run starts from scratch.
  Status run(const Grid& grid, std::int64_t first, std::int64_t count, const Scheduling& policy);

  /// The machine whose lane runs on this thread; null outside.
  static Machine* current();

  // What instructions ask for, as the running lane.
  Lane& lane() { return *running_; }
  const DeviceCaps& device() const { return device_; }
  const Grid& grid() const { return *grid_; }
  /// The blocks of the running lane's cluster.
  std::span<const std::unique_ptr<Block>> cluster() const;
  /// The one of them whose shared memory an address lies in.
  Block& block_at(std::uint32_t address);
  /// Ends the run: in a lane it does not return, else it throws Refused.
  [[noreturn]] void refuse(std::string why);
  /// Refuses what touches memory in a step that may begin before the one in front has ended, and
  /// whose lane has not waited for that.
  void check_previous_grid() {
    if (grid().step->overlaps_previous && !lane().saw_previous_grid)
      refuse("memory touched before the grid in front was waited for");
  }
  /// Work of so many turns of a warp. Refuses a run that has no end.
  void spend(std::int64_t turns);
  void wait(Wait wait);
  /// A place where others may be let through: some, or all until they can do no more.
  void pause(std::size_t hold_one_in = kHoldOneIn);
  /// Of so many such places one holds a lane up for long.
  static constexpr std::size_t kHoldOneIn = 2000;
  void wake(Lane& lane);
  /// Wakes lanes of the block that wait for just this.
  void wake(Block& block, const Wait& wait);
  /// Has `land` happen by the policy; `owner` is named when it goes wrong.
  void later(std::function<void()> land, const Lane& owner);
  /// A store to shared memory by the lane: others see it when the lane has come to a barrier or a
  /// fence, or at once, as the policy has it. `to` holds as many bytes.
  void store(Lane& lane, unsigned char* to, const void* from, std::size_t bytes);
  void show_stores(Lane& lane);
  bool at_once() const { return policy_.landing == Landing::at_once; }
  bool lazy() { return policy_.landing == Landing::late || chance_.one_in(2); }
  /// True for the last lane of the warp to come, which acts for all and then calls finish().
  bool gather(const char* what, void* brought);
  void finish(Warp& warp);
  Chance& chance() { return chance_; }
  /// Called by the fault handler in the running lane or while a copy lands.
  [[noreturn]] void faulted(Trap trap, const void* address);
  /// The end of the running lane's stack, or null.
  unsigned char* lane_stack_top() const;

 private:
  struct Refused {};
  struct InFlight {
    std::function<void()> land;
    const Lane* owner;
  };

  void prepare(std::int64_t first, std::int64_t count);
  void prepare_block(Block& block);
  void schedule();
  Warp* pick();
  void run_warp(Warp& warp);
  void resume(Lane& lane);
  void switch_out();
  void land_one();
  void check_end();
  std::string stuck() const;
  static void start(boost::context::detail::transfer_t from);

  DeviceCaps device_;
  const Grid* grid_ = nullptr;
  Scheduling policy_;
  Chance chance_{0};
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Warp*> warps_;
  std::vector<InFlight> in_flight_;
  std::vector<Arena> stacks_;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  Lane* running_ = nullptr;
  const Lane* landing_for_ = nullptr;
  std::size_t left_ = 0;  // lanes that have not ended
  std::vector<Lane*> held_up_;
  std::int64_t turns_ = 0;
  bool refused_ = false;
  std::string why_;
  std::jmp_buf landing_fault_;  // where a fault of a landing copy leads
};

std::string describe(const Lane& lane);
std::string describe(const Wait& wait);

}  // namespace kiln::emu
