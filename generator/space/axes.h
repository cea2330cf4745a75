// How a space is written: a list of values for each axis, and the product of the lists. Knows no
// family; which points are legal, rules say (typed_family.h).
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <vector>

namespace kiln {

/// An axis that is a flag.
inline constexpr std::array kNoYes{false, true};
inline constexpr std::array kNo{false};

/// `kNoYes` where the second value is offered.
inline std::vector<bool> no_yes(bool offered) {
  return offered ? std::vector{false, true} : std::vector{false};
}

/// `step`, 2 · `step`, … up to `most`.
inline std::vector<int> multiples(int step, int most) {
  std::vector<int> values;
  for (int value = step; value <= most; value += step) values.push_back(value);
  return values;
}

/// Every combination of one value of each list, the last list's values fastest. Refers to the lists
/// and outlives none of them.
template <typename... Axes>
class Product {
 public:
  explicit Product(const Axes&... axes) : axes_(axes...) {}

  template <typename Visit>
  void each(const Visit& visit) const {
    walk<0>(visit);
  }

 private:
  template <std::size_t kAxis, typename Visit, typename... Values>
  void walk(const Visit& visit, const Values&... values) const {
    if constexpr (kAxis == sizeof...(Axes))
      visit(values...);
    else
      for (const auto& value : std::get<kAxis>(axes_)) walk<kAxis + 1>(visit, values..., value);
  }

  std::tuple<const Axes&...> axes_;
};

}  // namespace kiln
