// Warpgroup matrix instructions: what they read of shared memory, what they add, when it is there.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>

#include "kiln/numeric.hpp"
#include "runtime/emulator/fragments.h"
#include "runtime/emulator/instructions.h"

namespace kiln::emu {
namespace {

using Type = WgmmaShape::Type;
constexpr int kRows = 64;
constexpr int kKBytes = 32;  // of one instruction, whatever the type

Machine& here() { return *Machine::current(); }

int bytes_of(Type t) { return t == Type::tf32 ? 4 : t == Type::f16 || t == Type::bf16 ? 2 : 1; }

bool type_named(std::string_view text, Type& out) {
  constexpr std::array<std::string_view, 7> kNames{"f16",  "bf16", "tf32", "e4m3",
                                                   "e5m2", "s8",   "u8"};
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  out = static_cast<Type>(found - kNames.begin());
  return found != kNames.end();
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (auto at = text.find(by); at != std::string_view::npos; at = text.find(by)) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  parts.push_back(text);
  return parts;
}

bool number(std::string_view text, int& out) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

/// A matrix descriptor, field by field, in bytes.
struct Descriptor {
  std::uint32_t start, leading, stride;
  int swizzle;  // bytes, 0: none
  explicit Descriptor(std::uint64_t d)
      : start(static_cast<std::uint32_t>(d & 0x3fff) << 4),
        leading(static_cast<std::uint32_t>(d >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(d >> 32 & 0x3fff) << 4),
        swizzle(std::array{0, 128, 64, 32}[d >> 62]) {}
};

/// Where 16 bytes of an operand begin: `row` and byte `along` of k, or, where rows are neighbours,
/// k number `row` and byte `along` of the rows.
std::uint32_t unit_address(const Descriptor& d, bool across, int row, int along) {
  const auto r = static_cast<std::uint32_t>(row), b = static_cast<std::uint32_t>(along);
  std::uint32_t linear = 0;
  if (d.swizzle == 0) {
    // Core matrices of 8 rows of 16 bytes; across k, the two distances exchange roles.
    linear = across ? r / 8 * d.leading + b / 16 * d.stride + r % 8 * 16
                    : r / 8 * d.stride + b / 16 * d.leading + r % 8 * 16;
    return d.start + linear;
  }
  const auto width = static_cast<std::uint32_t>(d.swizzle);
  linear = r / 8 * d.stride + r % 8 * width + b / width * (across ? d.leading : 0) + b % width;
  const std::uint32_t address = d.start + linear;
  return address ^ ((address >> 7 & (width / 16 - 1)) << 4);
}

template <typename T>
T element(Type type, const unsigned char* at) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    return type == Type::s8 ? static_cast<std::int8_t>(*at) : *at;
  } else {
    std::uint32_t bits = 0;
    std::memcpy(&bits, at, static_cast<std::size_t>(bytes_of(type)));
    static const auto e4m3 = [] {
      std::array<float, 256> all{};
      for (int i = 0; i < 256; ++i)
        all[static_cast<std::size_t>(i)] = decode(kE4m3, static_cast<std::uint8_t>(i));
      return all;
    }();
    static const auto e5m2 = [] {
      std::array<float, 256> all{};
      for (int i = 0; i < 256; ++i)
        all[static_cast<std::size_t>(i)] = decode(kE5m2, static_cast<std::uint8_t>(i));
      return all;
    }();
    switch (type) {
      case Type::f16:
        return fp16_to_float(static_cast<std::uint16_t>(bits));
      case Type::bf16:
        return bf16_to_float(static_cast<std::uint16_t>(bits));
      case Type::tf32:
        return std::bit_cast<float>(bits & ~0x1fffu);
      case Type::e4m3:
        return e4m3[bits];
      default:
        return e5m2[bits];
    }
  }
}

/// An operand as k lines of `rows` elements.
template <typename T>
std::vector<T> operand(Machine& m, const Block& block, std::uint64_t descriptor, Type type,
                       int rows, bool across) {
  const Descriptor d(descriptor);
  const int size = bytes_of(type), k = kKBytes / size;
  const std::uint32_t high = block.rank << SharedMemory::kRankShift;
  std::vector<T> out(static_cast<std::size_t>(rows * k));
  const int lines = across ? k : rows, length = across ? rows * size : kKBytes;
  for (int line = 0; line < lines; ++line)
    for (int along = 0; along < length; along += 16) {
      const unsigned char* unit =
          shared_for_engine(m, high | unit_address(d, across, line, along), 16, "wgmma");
      for (int e = 0; e < 16 / size; ++e) {
        const int i = along / size + e;
        const int at = across ? line * rows + i : i * rows + line;
        out[static_cast<std::size_t>(at)] = element<T>(type, unit + e * size);
      }
    }
  return out;
}

/// A from registers, as k lines of 64 elements.
template <typename T>
std::vector<T> words_of(const WgmmaOp& op, Type type, int k) {
  std::vector<T> out(static_cast<std::size_t>(kRows * k));
  const int size = bytes_of(type), packed = 4 / size;
  for (int lane = 0; lane < kWarpgroupLanes; ++lane) {
    const auto* words =
        reinterpret_cast<const unsigned char*>(op.words[static_cast<std::size_t>(lane)]);
    for (int e = 0; e < 4 * packed; ++e) {
      const Element at = in_wgmma_a(lane, e, packed);
      out[static_cast<std::size_t>(at.column * kRows + at.row)] =
          element<T>(type, words + e * size);
    }
  }
  return out;
}

template <typename T>
void multiply(Machine& m, const Block& block, const WgmmaOp& op, const WgmmaShape& s) {
  const auto a = s.a_registers ? words_of<T>(op, s.a, s.k)
                               : operand<T>(m, block, op.issued.left, s.a, kRows, s.a_across);
  const auto b = operand<T>(m, block, op.issued.right, s.b, s.n, s.b_across);
  const int k = s.k, n = s.n;
  std::vector<T> sums(static_cast<std::size_t>(kRows * n));
  if (op.issued.accumulate != 0) std::memcpy(sums.data(), op.tile->bits.data(), sums.size() * 4);
  const T sign = s.negate_a != s.negate_b ? T(-1) : T(1);
  for (int r = 0; r < kRows; ++r)
    for (int i = 0; i < k; ++i) {
      const T left = sign * a[static_cast<std::size_t>(i * kRows + r)];
      const T* right = &b[static_cast<std::size_t>(i * n)];
      T* to = &sums[static_cast<std::size_t>(r * n)];
      for (int c = 0; c < n; ++c) to[c] += left * right[c];
    }
  std::memcpy(op.tile->bits.data(), sums.data(), sums.size() * 4);
}

std::size_t sum_index(int lane, int i, int count) {
  const Element at = in_wgmma_accumulators(lane, i);
  return static_cast<std::size_t>(at.row * count * 2 + at.column);
}

/// Takes the sums out of a lane's registers; NaN stays behind.
void give(const WarpgroupLane::Held& held, int lane) {
  auto* registers = static_cast<std::uint32_t*>(held.sums);
  for (int i = 0; i < held.count; ++i)
    held.tile->bits[sum_index(lane, i, held.count)] = registers[i];
  std::memset(held.sums, SharedMemory::kPoison, static_cast<std::size_t>(held.count) * 4);
}

void take_back(const WarpgroupLane::Held& held, int lane) {
  auto* registers = static_cast<std::uint32_t*>(held.sums);
  for (int i = 0; i < held.count; ++i)
    registers[i] = held.tile->bits[sum_index(lane, i, held.count)];
}

const WgmmaShape& shape_of(Machine& m, const KilnEmuWgmma& w) {
  // Texts of an image keep their places while it is loaded; another image's may take them over.
  thread_local std::string name, operands;
  thread_local WgmmaShape shape;
  if (name == w.name && operands == w.operands) return shape;
  WgmmaShape parsed;
  if (!parse_wgmma(w.name, w.operands, parsed))
    m.refuse(fmt::format("no such instruction: {} with operands {}", w.name, w.operands));
  name = w.name, operands = w.operands, shape = parsed;
  return shape;
}

/// Does what all lanes have issued, up to operation number `last`.
void execute(Machine& m, Block& block, Warpgroup& group, std::uint64_t last) {
  while (group.executed < last && !group.ops.empty() &&
         group.ops.front().lanes == kWarpgroupLanes) {
    const WgmmaOp& op = group.ops.front();
    const WgmmaShape& s = shape_of(m, op.issued);
    m.spend(std::int64_t{s.n} * s.k / 64);
    if (s.integer)
      multiply<std::int32_t>(m, block, op, s);
    else
      multiply<float>(m, block, op, s);
    group.ops.pop_front();
    ++group.executed;
  }
}

Warpgroup& group_of(Lane& lane) {
  return lane.block->warpgroups[static_cast<std::size_t>(lane.index / kWarpgroupLanes)];
}

void check_same(Machine& m, const KilnEmuWgmma& mine, const KilnEmuWgmma& first) {
  if (mine.left != first.left || mine.right != first.right)
    m.refuse(fmt::format("wgmma with descriptors {:#x}, {:#x}; another lane has {:#x}, {:#x}",
                         mine.left, mine.right, first.left, first.right));
  if ((mine.accumulate != 0) != (first.accumulate != 0) || mine.name != first.name)
    m.refuse("wgmma unlike another lane's of the warpgroup");
}

void wgmma_fence() { here().lane().products.fenced = true; }

void wgmma(const KilnEmuWgmma* issued) {
  Machine& m = here();
  m.pause();
  Lane& lane = m.lane();
  WarpgroupLane& mine = lane.products;
  Warpgroup& group = group_of(lane);
  const WgmmaShape& shape = shape_of(m, *issued);
  if (issued->count * 2 != shape.n)
    m.refuse(fmt::format("{} with {} accumulator registers", issued->name, issued->count));
  const std::uint64_t before = mine.issued++;
  if (before - group.executed == group.ops.size()) group.ops.push_back({*issued, nullptr});
  WgmmaOp& op = group.ops[before - group.executed];
  check_same(m, *issued, op.issued);
  if (shape.a_registers != (issued->left_words != nullptr))
    m.refuse(fmt::format("{} with operands {}: A is elsewhere", issued->name, issued->operands));
  op.words[static_cast<std::size_t>(lane.index % kWarpgroupLanes)] = issued->left_words;

  auto held = std::find_if(mine.held.begin(), mine.held.end(),
                           [&](const auto& h) { return h.sums == issued->sums; });
  const bool fresh = held == mine.held.end();
  if (op.tile == nullptr)
    op.tile = fresh ? std::make_shared<AccumulatorTile>(AccumulatorTile{
                          std::vector<std::uint32_t>(static_cast<std::size_t>(kRows * shape.n))})
                    : held->tile;
  if (fresh) {
    if (!mine.fenced) m.refuse("wgmma on registers that no wgmma.fence has handed over");
    held = mine.held.insert(held, {issued->sums, issued->count, op.tile, 0});
    give(*held, lane.index % kWarpgroupLanes);
  } else if (held->tile != op.tile) {
    m.refuse("wgmma has other accumulators than another lane of the warpgroup");
  }
  held->last = mine.issued;
  if (++op.lanes < kWarpgroupLanes) return;
  const std::uint64_t number = mine.issued;
  if (!m.lazy()) execute(m, *lane.block, group, number);
  for (const auto& other : lane.block->lanes)
    if (&group_of(*other) == &group && !other->done && other->wait.what == Wait::For::products)
      m.wake(*other);
}

void wgmma_commit() {
  WarpgroupLane& mine = here().lane().products;
  mine.groups.push_back(mine.issued);
}

void wgmma_wait(int pending) {
  Machine& m = here();
  m.pause();
  Lane& lane = m.lane();
  WarpgroupLane& mine = lane.products;
  if (mine.groups.size() <= static_cast<std::size_t>(pending)) return;
  const std::uint64_t last =
      mine.groups[mine.groups.size() - 1 - static_cast<std::size_t>(pending)];
  Warpgroup& group = group_of(lane);
  for (;;) {
    execute(m, *lane.block, group, last);
    if (group.executed >= last) break;
    m.wait({Wait::For::products, static_cast<std::uint32_t>(last)});
  }
  const auto over = [&](const WarpgroupLane::Held& h) {
    if (h.last > last) return false;
    take_back(h, lane.index % kWarpgroupLanes);
    return true;
  };
  mine.held.erase(std::remove_if(mine.held.begin(), mine.held.end(), over), mine.held.end());
  // What has been waited for may be changed by the lane, so that it needs a new fence.
  if (mine.held.empty()) mine.fenced = false;
}

}  // namespace

bool parse_wgmma(std::string_view name, std::string_view operands, WgmmaShape& shape) {
  // wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16[.satfinite]
  const auto parts = split(name, '.');
  if (parts.size() != 8 || parts[0] != "wgmma" || parts[1] != "mma_async" || parts[2] != "sync" ||
      parts[3] != "aligned")
    return false;
  const std::string_view size = parts[4];
  const auto k = size.find('k');
  if (!size.starts_with("m64n") || k == std::string_view::npos ||
      !number(size.substr(4, k - 4), shape.n) || !number(size.substr(k + 1), shape.k))
    return false;
  shape.integer = parts[5] == "s32";
  if (!shape.integer && parts[5] != "f32") return false;
  if (!type_named(parts[6], shape.a) || !type_named(parts[7], shape.b)) return false;
  const bool bytes = shape.a == Type::s8 || shape.a == Type::u8;
  if (bytes != shape.integer || bytes_of(shape.a) != bytes_of(shape.b)) return false;
  if (shape.k * bytes_of(shape.a) != kKBytes || shape.n < 8 || shape.n > 256) return false;
  if (shape.n % 8 != 0 || (shape.integer && shape.n > 32 && shape.n % 16 != 0)) return false;

  // {four words} or a descriptor, a descriptor, p[, scale a, scale b[, across a, across b]]
  auto list = split(operands, ',');
  shape.a_registers = operands.starts_with('{');
  if (shape.a_registers) {
    // Of bytes it is not known which word is which.
    if (bytes_of(shape.a) == 1 || list.size() < 4 || !list[3].ends_with('}')) return false;
    list.erase(list.begin() + 1, list.begin() + 4);
  }
  // Nothing turns what comes from registers.
  const bool floating = !shape.integer, transposes = bytes_of(shape.a) == 2;
  const bool turns_a = transposes && !shape.a_registers;
  if (list.size() != (turns_a ? 7u : transposes ? 6u : floating ? 5u : 3u)) return false;
  int values[4] = {1, 1, 0, 0};
  for (std::size_t i = 3; i < list.size(); ++i)
    if (!number(list[i], values[i - 3])) return false;
  shape.negate_a = values[0] == -1, shape.negate_b = values[1] == -1;
  shape.a_across = turns_a && values[2] != 0;
  shape.b_across = values[turns_a ? 3 : 2] != 0;
  return true;
}

void add_products(KilnEmuOps& to) {
  to.wgmma_fence = wgmma_fence;
  to.wgmma = wgmma;
  to.wgmma_commit = wgmma_commit;
  to.wgmma_wait = wgmma_wait;
}

}  // namespace kiln::emu
