#include "generator/families/cuda/common/check.h"

#include <fmt/format.h>

#include <stdexcept>

#include "generator/render/embedded.h"
#include "generator/render/template.h"
#include "generator/space/platform.h"
#include "kiln/engine.hpp"

namespace kiln {

Source gpu_check_source(const DeviceCaps& device) {
  const Platform& platform = platform_of(device.vendor);
  Source source;
  source.file_name = fmt::format("kiln_check.{}", platform.extension);
  source.flags = platform.flags(device);
  source.text =
      fmt::format("// Written by kiln {}: the kernels that check other kernels.\n", version());
  const std::string parameters = fmt::format(
      "\n// ---- parameters ----\n\nconstexpr unsigned kCheckThreads = {};  // of a block\n",
      kCheckThreads);
  for (const std::string_view path : platform.check_files)
    for (const EmbeddedFile& file : embedded_templates()) {
      if (file.path != path) continue;
      const auto part = expand(file.text, {{"scales", "1"},
                                           {"zeros", "1"},
                                           {"groups", "0"},
                                           {"row_groups", "0"},
                                           {"scale_d", "1"},
                                           {"zero_a", "1"},
                                           {"indexed", "0"},
                                           {"amax", "0"},
                                           {"expression", "1"},
                                           {"expressed", "1"},
                                           {"has_fp8", "0"},
                                           {"soft_fp8", "0"},
                                           {"mx_scales", "0"},
                                           {"has_bf16_cvt", "0"}});
      // They ask about nothing else: a mistake in the sources, not in what anybody gave.
      if (!part) throw std::logic_error(fmt::format("{}: {}", path, part.error().message));
      source.text += fmt::format("\n// ---- {} ----\n{}", path, *part);
      if (path.ends_with("types.h")) source.text += parameters;
    }
  return source;
}

}  // namespace kiln
