// An error of the caller's input, formatted.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "kiln/error.hpp"

namespace kiln {

template <typename... Args>
tl::unexpected<Error> bad_input(fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::bad_input, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace kiln
