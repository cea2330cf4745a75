// Configs chosen by a command: given as text, or drawn with a seed. Draws are the same on every
// machine, which std::shuffle and the std distributions are not.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "generator/space/space.h"

namespace kiln::cli {

/// A seeded source of choices.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}
  /// 0 … count-1; count ≥ 1. The modulo's bias is below 2^-32 for any count used here.
  std::uint64_t below(std::uint64_t count) { return bits_() % count; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  template <typename T>
  const T& of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  std::mt19937_64 bits_;
};

/// The config written as `line`. Errors: bad_input (not a config, or illegal here: names the rule).
Result<Config> legal_config(std::string_view line, const Gemm& gemm, const DeviceCaps& device);

/// Up to `count` different legal configs of each family, families in the space's order.
std::vector<Config> sample_per_family(const SearchSpace& space, int count, std::uint64_t seed);

}  // namespace kiln::cli
