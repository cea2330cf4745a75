// The template language: lines `//% if expression`, `//% else`, `//% end` in a real source file.
// Only the branch that the values choose is kept. Knows nothing of GEMM.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kiln/error.hpp"

namespace kiln {

/// What expressions may ask about. A bare name is true unless its value is "", "0" or "none".
using TemplateValues = std::map<std::string, std::string, std::less<>>;

/// Expressions: `name`, `!name`, `name == value`, `name != value`, joined by `&&`, then by `||`.
/// `#pragma once` and `//%` lines disappear; indentation of kept lines stays.
/// Errors: internal (an unknown name, or an if without its end), naming the line.
Result<std::string> expand(std::string_view text, const TemplateValues& values);

}  // namespace kiln
