// Shared memory as lanes reach it, values that move between the lanes of a warp, and conversions.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "kiln/numeric.hpp"
#include "runtime/emulator/fragments.h"
#include "runtime/emulator/instructions.h"

namespace kiln::emu {
namespace {

Machine& here() { return *Machine::current(); }
std::uint16_t writer(const Lane& lane) { return static_cast<std::uint16_t>(lane.index + 1); }

const KilnEmuLane* lane() { return &here().lane().self; }
unsigned char* dynamic_shared() { return here().lane().block->shared.dynamic(); }
unsigned cluster_rank() { return here().lane().block->rank; }

unsigned char* shared_variable(int number, unsigned bytes) {
  Machine& m = here();
  unsigned char* at = m.lane().block->shared.variable(number, bytes);
  if (at == nullptr)
    m.refuse(fmt::format("shared variables take more than the device's {} bytes",
                         m.device().gpu.shared_block_bytes));
  return at;
}

unsigned shared_address(const void* pointer) {
  Machine& m = here();
  const auto address = m.lane().block->shared.address(pointer);
  if (!address) m.refuse("an address of shared memory asked for what lies elsewhere");
  return *address;
}

void check_aligned(Machine& m, std::uint32_t address, unsigned bytes, const char* what) {
  if (address % bytes != 0)
    m.refuse(fmt::format("{} of {} bytes at {:#x}: not aligned", what, bytes, address));
}

void shared_load(void* to, unsigned address, unsigned bytes) {
  Machine& m = here();
  m.pause();
  check_aligned(m, address, bytes, "a load");
  m.show_stores(m.lane());
  std::memcpy(to, shared_at(m, address, bytes, "a load"), bytes);
}

void shared_store(unsigned address, const void* from, unsigned bytes) {
  Machine& m = here();
  m.pause();
  check_aligned(m, address, bytes, "a store");
  m.store(m.lane(), shared_at(m, address, bytes, "a store"), from, bytes);
}

/// AMD's shared memory, by pointer.
unsigned char* local_at(Machine& m, const void* pointer, unsigned bytes, const char* what) {
  const SharedMemory& shared = m.lane().block->shared;
  const auto address = shared.address(pointer);
  unsigned char* at = address ? shared.at(*address, bytes) : nullptr;
  if (at == nullptr) m.refuse(fmt::format("{} of {} bytes outside shared memory", what, bytes));
  check_aligned(m, *address, bytes, what);
  return at;
}

void local_load(void* to, const void* from, unsigned bytes) {
  Machine& m = here();
  m.pause();
  // A wave's accesses to shared memory happen in their order.
  m.show_stores(m.lane());
  std::memcpy(to, local_at(m, from, bytes, "a read"), bytes);
}

/// A lane's part of a read that turns matrices over.
struct TurnedRead {
  unsigned char from[8], to[8];
};

/// Of every 16 lanes, those that follow each other bring lines of 16 elements, 8 bytes each; lane l
/// gets element l of every line.
void local_load_turned(void* to, const void* from, int element) {
  Machine& m = here();
  m.pause();
  m.show_stores(m.lane());
  TurnedRead mine{};
  std::memcpy(mine.from, local_at(m, from, 8, "a read"), 8);
  constexpr std::array<const char*, 3> kNames{"", "ds_read_b64_tr_b8", "ds_read_b64_tr_b16"};
  if (m.gather(kNames[static_cast<std::size_t>(element)], &mine)) {
    Warp& warp = *m.lane().warp;
    if (m.device().arch != "gfx950")
      m.refuse(fmt::format("{} has no {}", m.device().arch, warp.collective.what));
    const int lines = 8 / element, lanes_of_line = 16 / lines, of_lane = 8 / element;
    for (int lane = 0; lane < static_cast<int>(warp.lanes.size()); ++lane) {
      auto& taker =
          *static_cast<TurnedRead*>(warp.collective.brought[static_cast<std::size_t>(lane)]);
      const int column = lane % 16;
      for (int line = 0; line < lines; ++line) {
        const int bringer = lane - column + line * lanes_of_line + column / of_lane;
        std::memcpy(
            taker.to + line * element,
            static_cast<TurnedRead*>(warp.collective.brought[static_cast<std::size_t>(bringer)])
                    ->from +
                column % of_lane * element,
            static_cast<std::size_t>(element));
      }
    }
    m.finish(warp);
  }
  std::memcpy(to, mine.to, 8);
}

void local_store(void* to, const void* from, unsigned bytes) {
  Machine& m = here();
  m.pause();
  m.store(m.lane(), local_at(m, to, bytes, "a write"), from, bytes);
}

void store_fence() {
  Machine& m = here();
  m.pause(500);
  m.show_stores(m.lane());
}

/// What other blocks wait for: the place to hold a lane up.
void before_shared_work() {
  here().pause(500);
  here().check_previous_grid();
}

void async_fence() {
  Machine& m = here();
  m.pause();
  m.show_stores(m.lane());
  SharedMemory& shared = m.lane().block->shared;
  shared.fenced(writer(m.lane()));
  for (const int lane : std::exchange(m.lane().copiers, {}))
    shared.fenced(static_cast<std::uint16_t>(lane + 1));
}

/// One lane's part of a ldmatrix or stmatrix.
struct MatrixRows {
  unsigned address;
  const unsigned* from;
  unsigned* to;
};

/// The 8 rows of matrix `i`, whose addresses lanes 8i to 8i + 7 brought.
void rows_of(Machine& m, const Collective& c, int i, const char* what,
             std::array<unsigned char*, 8>& rows) {
  for (int r = 0; r < 8; ++r) {
    const auto& brought =
        *static_cast<const MatrixRows*>(c.brought[static_cast<std::size_t>(i * 8 + r)]);
    check_aligned(m, brought.address, 16, what);
    rows[static_cast<std::size_t>(r)] = shared_at(m, brought.address, 16, what);
  }
}

template <typename Visit>
void visit_elements(const std::array<unsigned char*, 8>& rows, bool transposed, Visit visit) {
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < 2; ++e) {
      Element at = in_8x8(lane, e);
      if (transposed) at = {at.column, at.row};
      visit(lane, e, rows[static_cast<std::size_t>(at.row)] + at.column * 2);
    }
}

void matrix_store(unsigned address, const unsigned* registers, int count, int transposed) {
  Machine& m = here();
  m.pause();
  MatrixRows mine{address, registers, nullptr};
  constexpr std::array<const char*, 5> kNames{"", "stmatrix.x1", "stmatrix.x2", "", "stmatrix.x4"};
  if (!m.gather(kNames[static_cast<std::size_t>(count)], &mine)) return;
  Warp& warp = *m.lane().warp;
  for (int i = 0; i < count; ++i) {
    std::array<unsigned char*, 8> rows{};
    rows_of(m, warp.collective, i, "stmatrix", rows);
    visit_elements(rows, transposed != 0, [&](int lane, int e, unsigned char* place) {
      const auto& brought =
          *static_cast<const MatrixRows*>(warp.collective.brought[static_cast<std::size_t>(lane)]);
      const auto half = static_cast<std::uint16_t>(brought.from[i] >> e * 16);
      m.store(*warp.lanes[static_cast<std::size_t>(lane)], place, &half, 2);
    });
  }
  m.finish(warp);
}

void matrix_load(unsigned* registers, unsigned address, int count, int transposed) {
  Machine& m = here();
  m.pause();
  m.show_stores(m.lane());
  MatrixRows mine{address, nullptr, registers};
  constexpr std::array<const char*, 5> kNames{"", "ldmatrix.x1", "ldmatrix.x2", "", "ldmatrix.x4"};
  if (!m.gather(kNames[static_cast<std::size_t>(count)], &mine)) return;
  Warp& warp = *m.lane().warp;
  for (int i = 0; i < count; ++i) {
    std::array<unsigned char*, 8> rows{};
    rows_of(m, warp.collective, i, "ldmatrix", rows);
    visit_elements(rows, transposed != 0, [&](int lane, int e, const unsigned char* place) {
      auto& brought =
          *static_cast<MatrixRows*>(warp.collective.brought[static_cast<std::size_t>(lane)]);
      std::uint16_t half = 0;
      std::memcpy(&half, place, 2);
      const unsigned kept = e == 0 ? 0 : brought.to[i] & 0xffff;
      brought.to[i] = kept | static_cast<unsigned>(half) << e * 16;
    });
  }
  m.finish(warp);
}

struct Shuffled {
  unsigned value, result;
  int argument;
};

void shuffle(unsigned* value, int kind, int argument) {
  Machine& m = here();
  Shuffled mine{*value, 0, argument};
  constexpr std::array<const char*, 3> kNames{"shfl.idx", "shfl.bfly", "shfl.down"};
  if (m.gather(kNames[static_cast<std::size_t>(kind)], &mine)) {
    Warp& warp = *m.lane().warp;
    const int lanes = static_cast<int>(warp.lanes.size());
    auto& brought = warp.collective.brought;
    for (int i = 0; i < lanes; ++i) {
      auto& to = *static_cast<Shuffled*>(brought[static_cast<std::size_t>(i)]);
      int from = kind == 0 ? to.argument % lanes : kind == 1 ? i ^ to.argument : i + to.argument;
      if (from >= lanes) from = i;
      to.result = static_cast<Shuffled*>(brought[static_cast<std::size_t>(from)])->value;
    }
    m.finish(warp);
  }
  *value = mine.result;
}

/// AMD's readfirstlane. Kernels use it on values that all lanes agree on, so this is checked.
unsigned first_lane(unsigned value) {
  Machine& m = here();
  Shuffled mine{value, 0, 0};
  if (m.gather("readfirstlane", &mine)) {
    Warp& warp = *m.lane().warp;
    const unsigned first = static_cast<Shuffled*>(warp.collective.brought.front())->value;
    for (void* brought : warp.collective.brought) {
      auto& to = *static_cast<Shuffled*>(brought);
      if (to.value != first)
        m.refuse(fmt::format("readfirstlane of {}, while the first lane has {}", to.value, first));
      to.result = first;
    }
    m.finish(warp);
  }
  return mine.result;
}

unsigned from_float(float value, int type) {
  switch (type) {
    case kKilnEmuHalf:
      return float_to_fp16(value);
    case kKilnEmuBfloat:
      return float_to_bf16(value);
    case kKilnEmuE4m3:
      return encode(kE4m3, value, Overflow::saturate);
    default:
      return encode(kE5m2, value, Overflow::saturate);
  }
}

float to_float(unsigned bits, int type) {
  switch (type) {
    case kKilnEmuHalf:
      return fp16_to_float(static_cast<std::uint16_t>(bits));
    case kKilnEmuBfloat:
      return bf16_to_float(static_cast<std::uint16_t>(bits));
    case kKilnEmuE4m3:
      return decode(kE4m3, static_cast<std::uint8_t>(bits));
    default:
      return decode(kE5m2, static_cast<std::uint8_t>(bits));
  }
}

[[noreturn]] void refuse(const char* sentence) { here().refuse(sentence); }

}  // namespace

unsigned char* shared_at(Machine& m, std::uint32_t address, std::size_t bytes, const char* what) {
  unsigned char* at = m.block_at(address).shared.at(address, bytes);
  if (at == nullptr)
    m.refuse(fmt::format("{} of {} bytes at {:#x}, outside shared memory", what, bytes, address));
  return at;
}

const unsigned char* shared_for_engine(Machine& m, std::uint32_t address, std::size_t bytes,
                                       const char* what) {
  const unsigned char* at = shared_at(m, address, bytes, what);
  const std::uint16_t by = m.block_at(address).shared.unfenced(address, bytes);
  if (by != SharedMemory::kNobody)
    m.refuse(
        fmt::format("{} reads shared memory at {:#x}, which thread {} stored without a proxy "
                    "fence since",
                    what, address, by - 1));
  return at;
}

void add_shared(KilnEmuOps& to) {
  to.lane = lane;
  to.dynamic_shared = dynamic_shared;
  to.shared_variable = shared_variable;
  to.shared_address = shared_address;
  to.shared_load = shared_load;
  to.shared_store = shared_store;
  to.local_load = local_load;
  to.local_load_turned = local_load_turned;
  to.local_store = local_store;
  to.store_fence = store_fence;
  to.before_shared_work = before_shared_work;
  to.cluster_rank = cluster_rank;
  to.async_fence = async_fence;
  to.matrix_store = matrix_store;
  to.matrix_load = matrix_load;
  to.shuffle = shuffle;
  to.first_lane = first_lane;
  to.from_float = from_float;
  to.to_float = to_float;
  to.refuse = refuse;
}

const KilnEmuOps& instructions() {
  static const KilnEmuOps ops = [] {
    KilnEmuOps all{};
    add_barriers(all);
    add_copies(all);
    add_tensor_maps(all);
    add_shared(all);
    add_products(all);
    add_mma(all);
    add_mfma(all);
    return all;
  }();
  return ops;
}

}  // namespace kiln::emu
