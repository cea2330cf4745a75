// Copies that happen by themselves: boxes of tensor maps, and AMD's and Ampere's loads straight
// into shared memory. Where they go is poisoned at once; what they bring comes when the machine
// says so.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <vector>

#include "kiln/numeric.hpp"
#include "runtime/emulator/instructions.h"

namespace kiln::emu {
namespace {

Machine& here() { return *Machine::current(); }

int swizzle_bytes(MapSwizzle s) {
  constexpr std::array<int, 4> kBytes{0, 32, 64, 128};
  return kBytes[static_cast<std::size_t>(s)];
}

/// The engine exchanges 16-byte units: the bits of an address above 7 pick among those of a row.
std::uint32_t swizzled(std::uint32_t address, MapSwizzle s) {
  const std::uint32_t units = static_cast<std::uint32_t>(swizzle_bytes(s)) / 16;
  return units == 0 ? address : address ^ ((address >> 7 & (units - 1)) << 4);
}

/// A box on its way: the map, the first element's coordinates, where in shared memory.
struct Box {
  EmulatedMap map;
  std::array<int, TensorMapSpec::kMaxRank> at{};
  std::uint32_t shared = 0;

  int element() const { return bytes_of(map.spec->element); }
  int row_bytes() const { return static_cast<int>(map.spec->box[0]) * element(); }
  int rows() const {
    int rows = 1;
    for (int d = 1; d < map.spec->rank; ++d)
      rows *= static_cast<int>(map.spec->box[static_cast<std::size_t>(d)]);
    return rows;
  }
  int bytes() const { return rows() * row_bytes(); }

  /// Where row `row` of the box begins in memory, and how many bytes at `skip` from there exist.
  struct Row {
    unsigned char* from;
    int skip, valid;
  };
  Row row(int row) const {
    const TensorMapSpec& s = *map.spec;
    unsigned char* from = map.base;
    bool inside = true;
    for (int d = 1; d < s.rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      const std::int64_t c = at[i] + row % static_cast<int>(s.box[i]);
      row /= static_cast<int>(s.box[i]);
      inside = inside && c >= 0 && c < static_cast<std::int64_t>(map.dims[i]);
      from += c * static_cast<std::int64_t>(map.strides[i - 1]);
    }
    const std::int64_t first = std::max<std::int64_t>(0, -std::int64_t{at[0]});
    const std::int64_t end =
        std::min<std::int64_t>(s.box[0], static_cast<std::int64_t>(map.dims[0]) - at[0]);
    if (!inside || end <= first) return {nullptr, 0, 0};
    return {from + std::int64_t{at[0]} * element(), static_cast<int>(first) * element(),
            static_cast<int>(end - first) * element()};
  }
};

Box box_of(Machine& m, const void* map, const int* at, int rank, std::uint32_t shared) {
  Box box;
  box.map = map_at(m, map);
  const TensorMapSpec& s = *box.map.spec;
  if (s.rank != rank) m.refuse(fmt::format("a copy of {} dimensions by a map of {}", rank, s.rank));
  for (int d = 0; d < rank; ++d) box.at[static_cast<std::size_t>(d)] = at[d];
  box.shared = shared;
  // Seen on an H200: an illegal instruction, whatever the manual leaves open.
  if (std::int64_t{at[0]} * box.element() % 16 != 0)
    m.refuse(fmt::format("a copy from element {} of its rows: not a multiple of 16 bytes", at[0]));
  const std::uint32_t alignment = s.swizzle == MapSwizzle::none ? 16 : 128;
  if (shared % alignment != 0)
    m.refuse(
        fmt::format("a copy at {:#x} of shared memory: not {}-byte aligned", shared, alignment));
  if (s.swizzle != MapSwizzle::none && box.row_bytes() > swizzle_bytes(s.swizzle))
    m.refuse(fmt::format("rows of {} bytes under a swizzle of {}", box.row_bytes(),
                         swizzle_bytes(s.swizzle)));
  return box;
}

void store_row(Block& block, const Box& box, int row, const unsigned char* bytes) {
  const std::uint32_t begin = box.shared + static_cast<std::uint32_t>(row * box.row_bytes());
  for (int unit = 0; unit < box.row_bytes(); unit += 16) {
    const std::uint32_t to =
        swizzled(begin + static_cast<std::uint32_t>(unit), box.map.spec->swizzle);
    const auto size = static_cast<std::size_t>(std::min(16, box.row_bytes() - unit));
    std::memcpy(block.shared.at(to, size), bytes + unit, size);
    block.shared.stored_by_engine(to, size);
  }
}

/// The first byte of a map of which a load reads nothing must be there all the same: seen on an
/// H100, an illegal address.
void touch_base(const EmulatedMap& map) {
  [[maybe_unused]] const volatile unsigned char first = *map.base;
}

void land_load(Machine& m, const Box& box, const std::vector<Block*>& blocks,
               std::uint32_t barrier) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(box.row_bytes()));
  bool outside = true;
  for (int row = 0; row < box.rows(); ++row) {
    std::fill(bytes.begin(), bytes.end(), 0);
    const Box::Row from = box.row(row);
    outside = outside && from.valid <= 0;
    if (from.valid > 0)
      std::memcpy(bytes.data() + from.skip, from.from + from.skip,
                  static_cast<std::size_t>(from.valid));
    if (box.map.spec->element == MapElement::tf32)
      for (std::size_t i = 0; i < bytes.size(); i += 4) {
        float x;
        std::memcpy(&x, &bytes[i], 4);
        x = round_to_tf32(x);
        std::memcpy(&bytes[i], &x, 4);
      }
    for (Block* block : blocks) store_row(*block, box, row, bytes.data());
  }
  if (outside) touch_base(box.map);
  for (Block* block : blocks) bytes_arrived(m, *block, barrier, box.bytes());
}

void tensor_load(unsigned to, const void* map, unsigned barrier, const int* at, int rank,
                 unsigned mask) {
  Machine& m = here();
  m.pause();
  m.check_previous_grid();
  const Box box = box_of(m, map, at, rank, to);
  if (mask == 0) mask = 1u << (to >> SharedMemory::kRankShift);
  std::vector<Block*> blocks;
  constexpr std::uint32_t kPlace = (1u << SharedMemory::kRankShift) - 1;
  for (std::uint32_t r = 0; r < 16; ++r) {
    if ((mask >> r & 1) == 0) continue;
    Block& block = m.block_at(r << SharedMemory::kRankShift);
    unsigned char* there = block.shared.at(to & kPlace, static_cast<std::size_t>(box.bytes()));
    if (there == nullptr)
      m.refuse(fmt::format("a copy of {} bytes to {:#x}, outside the shared memory of block {}",
                           box.bytes(), to, r));
    std::memset(there, SharedMemory::kPoison, static_cast<std::size_t>(box.bytes()));
    blocks.push_back(&block);
  }
  m.later([&m, box, blocks, barrier] { land_load(m, box, blocks, barrier & kPlace); }, m.lane());
}

void wake_for_copies(Machine& m, Lane& lane) {
  if (!lane.done && lane.wait.what == Wait::For::copies) m.wake(lane);
}

void tensor_store(const void* map, unsigned from, const int* at, int rank) {
  Machine& m = here();
  m.pause();
  m.check_previous_grid();
  const Box box = box_of(m, map, at, rank, from);
  Lane& lane = m.lane();
  const auto group = lane.bulk.open;
  ++group->unread, ++group->unwritten;
  // First the engine reads shared memory, some time later memory holds it.
  const auto read = [&m, &lane, box, group] {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(box.bytes()));
    for (int unit = 0; unit < box.bytes(); unit += 16) {
      const std::uint32_t place =
          swizzled(box.shared + static_cast<std::uint32_t>(unit), box.map.spec->swizzle);
      std::memcpy(bytes.data() + unit, shared_for_engine(m, place, 16, "a copy to memory"), 16);
    }
    --group->unread;
    wake_for_copies(m, lane);
    m.later(
        [&m, &lane, box, group, bytes = std::move(bytes)] {
          for (int row = 0; row < box.rows(); ++row) {
            const Box::Row to = box.row(row);
            if (to.valid > 0)
              std::memcpy(to.from + to.skip, bytes.data() + row * box.row_bytes() + to.skip,
                          static_cast<std::size_t>(to.valid));
          }
          --group->unwritten;
          wake_for_copies(m, lane);
        },
        lane);
  };
  m.later(read, lane);
}

void commit(CopyQueue& queue) {
  queue.groups.push_back(queue.open);
  queue.open = std::make_shared<CopyQueue::Group>();
}

void wait_groups(Machine& m, CopyQueue& queue, int pending, bool only_read) {
  const auto behind = [&] {
    for (std::size_t i = 0; i + static_cast<std::size_t>(pending) < queue.groups.size(); ++i)
      if ((only_read ? queue.groups[i]->unread : queue.groups[i]->unwritten) != 0) return true;
    return false;
  };
  m.pause();
  while (behind()) m.wait({Wait::For::copies, static_cast<std::uint32_t>(pending)});
}

void bulk_commit() { commit(here().lane().bulk); }
void bulk_wait(int pending, int only_read) {
  wait_groups(here(), here().lane().bulk, pending, only_read != 0);
}

/// Ampere's: `valid` bytes from memory, zeros behind them.
void copy(unsigned to, const void* from, int bytes, int valid) {
  Machine& m = here();
  m.pause();
  Lane& lane = m.lane();
  const auto size = static_cast<std::size_t>(bytes);
  m.check_previous_grid();
  if (bytes != 4 && bytes != 8 && bytes != 16) m.refuse(fmt::format("cp.async of {} bytes", bytes));
  if (to % size != 0 || (valid > 0 && reinterpret_cast<std::uintptr_t>(from) % size != 0))
    m.refuse(fmt::format("cp.async of {} bytes from {} to {:#x}: not aligned", bytes, from, to));
  if (valid < 0 || valid > bytes) m.refuse(fmt::format("cp.async that reads {} bytes", valid));
  unsigned char* there = shared_at(m, to, size, "cp.async");
  std::memset(there, SharedMemory::kPoison, size);
  const auto group = lane.copies.open;
  ++group->unwritten;
  lane.on_their_way.push_back(std::make_shared<Copy>());
  m.later(
      [&m, &lane, group, to, there, from, size, valid, copy = lane.on_their_way.back()] {
        std::memset(there, 0, size);
        if (valid > 0) std::memcpy(there, from, static_cast<std::size_t>(valid));
        lane.block->shared.stored(to, size, static_cast<std::uint16_t>(lane.index + 1));
        --group->unwritten;
        std::erase(lane.on_their_way, copy);
        for (const auto& arrival : copy->arrivals)
          if (--arrival->missing == 0) copies_arrived(m, lane, arrival->barrier);
        wake_for_copies(m, lane);
      },
      lane);
}

void copy_arrive(unsigned barrier) {
  Machine& m = here();
  m.pause();
  Lane& lane = m.lane();
  const auto arrival = std::make_shared<CopyArrival>();
  *arrival = {barrier, static_cast<int>(lane.on_their_way.size())};
  if (arrival->missing == 0) return copies_arrived(m, lane, barrier);
  for (const auto& copy : lane.on_their_way) copy->arrivals.push_back(arrival);
}

void copy_commit() { commit(here().lane().copies); }
void copy_wait(int pending) { wait_groups(here(), here().lane().copies, pending, false); }

/// AMD's: lanes write side by side from where the first lane says.
void load_to_shared(unsigned char* to, const void* from, int bytes) {
  Machine& m = here();
  m.pause();
  Lane& lane = m.lane();
  const int in_wave = lane.index - lane.warp->lanes.front()->index;
  unsigned char* there = to + in_wave * bytes;
  const auto address = lane.block->shared.address(there);
  if (!address || lane.block->shared.at(*address, static_cast<std::size_t>(bytes)) == nullptr)
    m.refuse("a load straight into shared memory goes outside it");
  std::memset(there, SharedMemory::kPoison, static_cast<std::size_t>(bytes));
  const auto group = std::make_shared<CopyQueue::Group>();
  group->unwritten = 1;
  lane.loads.push_back(group);
  m.later(
      [&m, &lane, group, there, from, bytes] {
        if (from == nullptr)
          std::memset(there, 0, static_cast<std::size_t>(bytes));
        else
          std::memcpy(there, from, static_cast<std::size_t>(bytes));
        --group->unwritten;
        wake_for_copies(m, lane);
      },
      lane);
}

void count_load() { here().lane().loads.push_back(std::make_shared<CopyQueue::Group>()); }

void wait_count(int loads) {
  Machine& m = here();
  auto& queue = m.lane().loads;
  m.pause();
  const auto behind = [&] {
    for (std::size_t i = 0; i + static_cast<std::size_t>(loads) < queue.size(); ++i)
      if (queue[i]->unwritten != 0) return true;
    return false;
  };
  while (behind()) m.wait({Wait::For::copies, static_cast<std::uint32_t>(loads)});
  if (queue.size() > static_cast<std::size_t>(loads))
    queue.erase(queue.begin(), queue.end() - loads);
}

}  // namespace

void add_copies(KilnEmuOps& to) {
  to.tensor_load = tensor_load;
  to.tensor_store = tensor_store;
  to.bulk_commit = bulk_commit;
  to.bulk_wait = bulk_wait;
  to.copy = copy;
  to.copy_commit = copy_commit;
  to.copy_wait = copy_wait;
  to.copy_arrive = copy_arrive;
  to.load_to_shared = load_to_shared;
  to.count_load = count_load;
  to.wait_count = wait_count;
}

}  // namespace kiln::emu
