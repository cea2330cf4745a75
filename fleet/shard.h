// One part of a list that several processes tune: the I-th of N. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kiln/error.hpp"

namespace kiln {

struct Shard {
  int index = 1;  // 1 to `of`
  int of = 1;
  auto operator<=>(const Shard&) const = default;

  /// Whether it holds the item of this place, counted from 0, in a list that is ordered longest
  /// first: each shard has long and short ones, and no two counts differ by more than one.
  bool holds(std::size_t place) const {
    return place % static_cast<std::size_t>(of) == static_cast<std::size_t>(index) - 1;
  }
};

inline constexpr int kMostShards = 100'000;

/// "3/8". Errors: bad_input, naming the shard and what is wrong with it.
Result<Shard> parse_shard(std::string_view text);
std::string text(const Shard& shard);

}  // namespace kiln
