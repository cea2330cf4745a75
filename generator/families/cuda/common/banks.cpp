#include "generator/families/cuda/common/banks.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#define KILN_DEVICE inline
#include "templates/cuda/common/banks.h"
#undef KILN_DEVICE

namespace kiln::cuda {
namespace {

constexpr int kServed = 128;  // bytes at once
constexpr int kUnit = 16;     // what one lane reads or writes

int address_of(const TileLines& t, Exchange e, int line, int byte) {
  return line * t.pitch() + exchanged_byte(line, byte, e.bits, e.base, e.shift);
}

/// Distance in lines between those that a lane reads of one chunk of k.
int line_step(const TileLines& t) { return t.along_k || size_of(t.type) <= 2 ? 8 : 4; }

int count_turns(const TileLines& t, Exchange e) {
  // What the reader adds to the first read moves all lanes alike.
  const int size = size_of(t.type);
  std::array<int, 32> reads{};
  for (int lane = 0; lane < 32; ++lane) {
    const LanePlace p = lane_place(size, t.along_k, t.is_a, lane);
    reads[static_cast<std::size_t>(lane)] = address_of(t, e, p.line, p.byte);
  }
  int lost = turns_lost(reads, read_bytes(size, t.along_k, t.is_a));
  // Exchanges repeat after 8 lines, and lines are dealt within 16.
  const int units = t.pitch() / kUnit;
  for (int first = 0; first < units * std::min(t.lines(), 16); first += 32) {
    std::array<int, 32> writes{};
    for (int lane = 0; lane < 32; ++lane) {
      const int unit = (first + lane) % (units * t.lines());
      const int line = place_of_line(unit / units, size_of(t.type), t.along_k);
      writes[static_cast<std::size_t>(lane)] = address_of(t, e, line, unit % units * kUnit);
    }
    lost += turns_lost(writes, kUnit);
  }
  return lost;
}

}  // namespace

int turns_lost(std::span<const int> addresses, int bytes) {
  const std::size_t lanes = static_cast<std::size_t>(kServed / bytes);
  int lost = 0;
  for (std::size_t first = 0; first < addresses.size(); first += lanes) {
    // Lanes that want the same word of a bank are served together.
    std::array<std::array<int, kServed / 4>, kServed / 4> words;
    std::array<int, kServed / 4> wanted{};
    for (const int address : addresses.subspan(first, std::min(lanes, addresses.size() - first)))
      for (int word = address / 4; word < (address + bytes) / 4; ++word) {
        const auto bank = static_cast<std::size_t>(word % (kServed / 4));
        auto& count = wanted[bank];
        const auto begin = words[bank].begin();
        if (std::find(begin, begin + count, word) == begin + count)
          words[bank][static_cast<std::size_t>(count++)] = word;
      }
    lost += std::max(1, *std::max_element(wanted.begin(), wanted.end())) - 1;
  }
  return lost;
}

int turns_lost(const TileLines& t, Exchange e) {
  // Thousands of configs share a few hundred layouts.
  thread_local std::map<std::pair<TileLines, Exchange>, int> known;
  const auto [place, fresh] = known.try_emplace({t, e}, 0);
  if (fresh) place->second = count_turns(t, e);
  return place->second;
}

bool is_sound(const TileLines& t, Exchange e) {
  if (e.bits == 0) return e.base == 0 && e.shift == 0;
  if (e.bits < 0 || e.bits > 3 || e.base < 4 || e.base > 7 || e.shift < 0 || e.shift > 3)
    return false;
  if (t.pitch() % (1 << (e.base + e.bits)) != 0) return false;
  return 1 << (e.shift + e.bits) <= line_step(t);
}

std::optional<Exchange> conflict_free(const TileLines& t) {
  for (int bits = 0; bits <= 3; ++bits)
    for (int base = bits == 0 ? 0 : 4; base <= (bits == 0 ? 0 : 7); ++base)
      for (int shift = 0; shift <= (bits == 0 ? 0 : 3); ++shift) {
        const Exchange e{bits, base, shift};
        if (is_sound(t, e) && turns_lost(t, e) == 0) return e;
      }
  return std::nullopt;
}

}  // namespace kiln::cuda
