#include "runtime/own_folder.h"

#include <dlfcn.h>

#include <system_error>

namespace kiln {

std::filesystem::path own_folder() {
  Dl_info code{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &code) == 0 || !code.dli_fname) return {};
  std::error_code ignored;
  return std::filesystem::absolute(code.dli_fname, ignored).parent_path();
}

}  // namespace kiln
