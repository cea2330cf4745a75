#include "cli/quantity.h"

#include <charconv>
#include <cmath>

namespace kiln::cli {

std::optional<double> quantity(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (rest.empty()) return number;
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  for (const Unit& unit : units)
    if (rest == unit.suffix) return number * unit.factor;
  return std::nullopt;
}

}  // namespace kiln::cli
