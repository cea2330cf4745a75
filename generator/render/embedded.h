// The template files, compiled in as bytes by the build.
#pragma once

#include <span>
#include <string_view>

namespace kiln {

struct EmbeddedFile {
  std::string_view path;  // relative to templates/, e.g. "host/packed.h"
  std::string_view text;
};

/// Every file of templates/, in path order.
std::span<const EmbeddedFile> embedded_templates();

}  // namespace kiln
