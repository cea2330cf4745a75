// A value by its name in a list of texts, as arguments of Python name it.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

#include "errors.h"

namespace kiln::python {

/// Errors: bad_input, raised, with the names that there are.
template <typename T, std::size_t n>
T chosen(const std::pair<const char*, T> (&names)[n], const std::string& wanted, const char* what) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (wanted == name) return value;
    known += known.empty() ? name : fmt::format(", {}", name);
  }
  raise_bad_input(fmt::format("{} = {}: must be one of {}", what, wanted, known));
}

}  // namespace kiln::python
