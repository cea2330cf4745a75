// Fields of a config: what drives its text, its parsing and the axes of its space. A config is a
// plain struct with `kFamily`, defaults, `operator<=>` and `fields()`; its enums have `names_of()`.
#pragma once

#include <cstdint>
#include <string_view>

namespace kiln {

/// One value of an enum and its name in texts.
template <typename E>
struct Named {
  E value;
  std::string_view name;
};

template <typename E>
constexpr std::string_view name(E value) requires requires {
  names_of(value);
}
{
  for (const auto& row : names_of(value))
    if (row.value == value) return row.name;
  return "";
}

/// Name of a config field, where it lives, and the largest number that a text may give it: rules
/// multiply up to three of them within int. A field that was added after the first databases is
/// `later`: its zero is left out of the text, so that older texts stay valid. An `argument` is
/// given to the kernel with each call: configs that differ in arguments alone share a binary, with
/// few exceptions that cost a search no more than a compilation.
template <typename C, typename T>
struct Field {
  std::string_view name;
  T C::*member;
  int most = 1024;
  bool later = false;
  bool argument = false;
};

/// A field that is an argument; `most` is of numbers alone.
template <typename C, typename T>
constexpr Field<C, T> argument(std::string_view name, T C::*member, int most = 0) {
  return {name, member, most, false, true};
}

}  // namespace kiln
