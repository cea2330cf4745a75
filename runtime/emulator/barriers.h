// Barriers of a block: those in shared memory, with phases, arrivals and expected bytes, and the
// numbered ones that count lanes. Pure state: who waits is the machine's business.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::emu {

struct Mbarrier {
  std::uint32_t arrivals = 0;  // that a phase takes
  std::uint32_t pending = 0;   // of this phase
  std::int64_t bytes = 0;      // expected and not yet here; may go below zero for a while
  std::uint64_t phase = 0;
  int maker = 0;        // the lane that initialised it
  bool fenced = false;  // other blocks and the copy engine may know of it
  // Lanes whose copies have come in this phase, and in the one before. Whoever waits for them may
  // fence in their place.
  std::vector<int> copiers, copiers_before;

  /// True when the phase is over, and the next one has begun.
  bool settle() {
    if (pending != 0 || bytes != 0) return false;
    ++phase;
    pending = arrivals;
    copiers_before = std::exchange(copiers, {});
    return true;
  }
};

/// By the place in the block's shared memory.
using Mbarriers = std::map<std::uint32_t, Mbarrier>;

struct NamedBarrier {
  int threads = 0;  // 0: nobody has come yet
  int arrived = 0;
};
using NamedBarriers = std::array<NamedBarrier, 16>;

}  // namespace kiln::emu
