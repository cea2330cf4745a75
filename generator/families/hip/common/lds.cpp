#include "generator/families/hip/common/lds.h"

#include <algorithm>
#include <vector>

namespace kiln::hip {
namespace {

using Groups = std::vector<std::vector<int>>;

/// Runs of lanes, first and last, and the same again 32 lanes up.
Groups with_upper_half(const std::vector<std::vector<std::pair<int, int>>>& lower) {
  Groups groups;
  for (const int half : {0, 32})
    for (const auto& runs : lower) {
      groups.emplace_back();
      for (const auto& [first, last] : runs)
        for (int lane = first; lane <= last; ++lane) groups.back().push_back(lane + half);
    }
  return groups;
}

struct LaneGroups {
  int banks;
  Groups groups;
  std::uint32_t words = 4;  // of a lane
};

const LaneGroups& lane_groups(ArchSet arch, LdsOp op) {
  static const auto& cdna3_read = *new LaneGroups{
      32, with_upper_half(
              {{{0, 3}, {20, 23}}, {{4, 7}, {16, 19}}, {{8, 11}, {28, 31}}, {{12, 15}, {24, 27}}})};
  static const auto& cdna4_read = *new LaneGroups{
      64, with_upper_half({{{0, 3}, {12, 15}, {20, 27}}, {{4, 11}, {16, 19}, {28, 31}}})};
  static const auto& turning_read = *new LaneGroups{64, with_upper_half({{{0, 31}}}), 2};
  static const auto& write =
      *new LaneGroups{32, with_upper_half({{{0, 7}}, {{8, 15}}, {{16, 23}}, {{24, 31}}})};
  if (op == LdsOp::write_b128) return write;
  if (op == LdsOp::read_b64_tr) return turning_read;
  return arch == kGfx950 ? cdna4_read : cdna3_read;
}

}  // namespace

LdsTurns lds_turns(ArchSet arch, LdsOp op, const LaneAddresses& addresses) {
  const LaneGroups& rule = lane_groups(arch, op);
  LdsTurns turns;
  for (const auto& group : rule.groups) {
    // Lanes that want the same word of a bank are served together. A lane wants one of each bank.
    std::array<std::array<std::uint32_t, 32>, 64> words;
    std::array<std::size_t, 64> wanted{};
    std::size_t most = 0;
    for (const int lane : group)
      for (std::uint32_t word = 0; word < rule.words; ++word) {
        const std::uint32_t at = addresses[static_cast<std::size_t>(lane)] / 4 + word;
        const std::size_t bank = at % static_cast<std::uint32_t>(rule.banks);
        const auto begin = words[bank].begin(), end = begin + static_cast<int>(wanted[bank]);
        if (std::find(begin, end, at) != end) continue;
        words[bank][wanted[bank]++] = at;
        most = std::max(most, wanted[bank]);
      }
    turns.taken += static_cast<int>(most);
    turns.least += (static_cast<int>(group.size() * rule.words) + rule.banks - 1) / rule.banks;
  }
  return turns;
}

}  // namespace kiln::hip
