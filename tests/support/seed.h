// What property tests draw from and how much they draw. As they stand, every run is the same;
// .ci/nightly asks for fresh seeds, and for more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

namespace kiln::test {

/// KILN_SEED=<number> draws what that run drew, KILN_SEED=fresh what nobody has; 1 otherwise.
inline std::uint64_t seed_of_run() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("KILN_SEED");
    if (given == nullptr) return std::uint64_t{1};
    if (std::string_view(given) == "fresh") return std::uint64_t{std::random_device{}()};
    return static_cast<std::uint64_t>(std::strtoull(given, nullptr, 10));
  }();
  return seed;
}

/// KILN_THOROUGH: how many times as many samples as usual are drawn.
inline int thorough() {
  const char* given = std::getenv("KILN_THOROUGH");
  return given == nullptr ? 1 : std::clamp(std::atoi(given), 1, 1000);
}

}  // namespace kiln::test
