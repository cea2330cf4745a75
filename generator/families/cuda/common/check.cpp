#include "generator/families/cuda/common/check.h"

#include <fmt/format.h>

#include <cassert>

#include "generator/families/hip/common/hip.h"
#include "generator/render/embedded.h"
#include "generator/render/template.h"
#include "kiln/engine.hpp"

namespace kiln {

Source gpu_check_source(const DeviceCaps& device) {
  const bool nvidia = device.vendor == Vendor::nvidia;
  Source source;
  source.file_name = nvidia ? "kiln_check.cu" : "kiln_check.hip";
  source.flags = nvidia
                     ? std::vector<std::string>{"--gpu-architecture=" + device.arch, "--std=c++17"}
                     : hip::flags(device);
  const std::vector<std::string_view> files =
      nvidia ? std::vector<std::string_view>{"cuda/common/abi.h", "cuda/common/types.h",
                                             "cuda/check/check.cu"}
             : std::vector<std::string_view>{"cuda/common/abi.h", "hip/common/types.h",
                                             "hip/check/device.h", "cuda/check/check.cu"};
  source.text =
      fmt::format("// Written by kiln {}: the kernels that check other kernels.\n", version());
  const std::string parameters = fmt::format(
      "\n// ---- parameters ----\n\nconstexpr unsigned kCheckThreads = {};  // of a block\n",
      kCheckThreads);
  for (const std::string_view path : files)
    for (const EmbeddedFile& file : embedded_templates()) {
      if (file.path != path) continue;
      const auto part = expand(file.text, {{"nvidia", nvidia ? "1" : "0"}, {"scales", "1"}});
      assert(part);  // they ask about nothing else
      source.text += fmt::format("\n// ---- {} ----\n{}", path, *part);
      if (path.ends_with("types.h")) source.text += parameters;
    }
  return source;
}

}  // namespace kiln
