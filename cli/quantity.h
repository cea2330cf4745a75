// Numbers with a unit, as people write them: 5s, 90d, 100M. Knows no option.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace kiln::cli {

struct Unit {
  std::string_view suffix;
  double factor;
};

inline constexpr Unit kSecondUnits[] = {{"ms", 1e-3}, {"s", 1},    {"sec", 1},  {"m", 60},
                                        {"min", 60},  {"h", 3600}, {"d", 86400}};

/// A finite number ≥ 0 times the factor of the unit that follows it, blanks between them allowed;
/// without a unit the number itself. Nothing where `text` is none of that.
std::optional<double> quantity(std::string_view text, std::span<const Unit> units);

}  // namespace kiln::cli
