#include "bench/bars.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace kiln {
namespace {

constexpr std::array<const char*, 9> kEighths{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
constexpr std::array<const char*, 8> kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

std::string repeated(const char* cell, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += cell;
  return out;
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string share_bar(double share, int cells) {
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 8 * cells));
  std::string out = repeated("█", eighths / 8);
  const bool part = eighths % 8 != 0;
  if (part) out += kEighths[static_cast<std::size_t>(eighths % 8)];
  return out + std::string(static_cast<std::size_t>(cells - eighths / 8 - int(part)), ' ');
}

std::string ratio_bar(double ratio) {
  constexpr int kSide = 5;
  if (!(ratio > 0)) return {};
  const double doublings = std::clamp(std::log2(ratio), -1.0, 1.0);
  if (doublings >= 0) return std::string(kSide, ' ') + "│" + share_bar(doublings, kSide);
  // There are no blocks that fill a cell from the right but the half one.
  const int halves = static_cast<int>(std::lround(-doublings * 2 * kSide));
  const int blank = kSide - (halves + 1) / 2;
  return std::string(static_cast<std::size_t>(blank), ' ') + (halves % 2 ? "▐" : "") +
         repeated("█", halves / 2) + "│" + std::string(kSide, ' ');
}

std::string sparkline(const std::vector<double>& values, std::size_t cells) {
  const std::size_t count = std::min(values.size(), cells);
  std::vector<double> shown;
  for (std::size_t i = 0; i < count; ++i)
    shown.push_back(values[(i + 1) * values.size() / count - 1]);
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const double value : shown)
    if (value > 0) least = std::min(least, value), most = std::max(most, value);
  std::string out;
  for (const double value : shown) {
    const double height = most > least ? (value - least) / (most - least) : 1;
    out += value > 0 ? kHeights[static_cast<std::size_t>(std::lround(height * 7))] : " ";
  }
  return out;
}

}  // namespace kiln
