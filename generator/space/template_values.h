// What a family's templates may ask about.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace kiln {

/// What expressions of templates may ask about. A bare name is true unless its value is "", "0" or
/// "none".
using TemplateValues = std::map<std::string, std::string, std::less<>>;

}  // namespace kiln
