// The template language: lines `//% if expression`, `//% else`, `//% end`, `//% include path` in a
// real source file. Only the branch that the values choose is kept. Knows nothing of GEMM.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "generator/space/template_values.h"
#include "kiln/error.hpp"

namespace kiln {

/// The text of a template by its path; empty where there is none.
using TemplateFiles = std::function<std::string_view(std::string_view path)>;

/// Expressions: `name`, `!name`, `name == value`, `name != value`, joined by `&&`, then by `||`.
/// `#pragma once` and `//%` lines disappear; indentation of kept lines stays. An included file is
/// expanded with the same values and indented as the line that includes it; its head, down to
/// `#pragma once`, is left out. Errors: internal (an unknown name or file, or an if
/// without its end), naming the line.
Result<std::string> expand(std::string_view text, const TemplateValues& values,
                           const TemplateFiles& files = {});

/// The paths that the template includes in any of its branches, in order.
std::vector<std::string_view> included_by(std::string_view text);

}  // namespace kiln
