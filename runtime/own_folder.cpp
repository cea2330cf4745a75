#include "runtime/own_folder.h"

#include <dlfcn.h>

#include <system_error>

namespace kiln {

std::filesystem::path own_folder() {
  namespace fs = std::filesystem;
  Dl_info code{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &code) == 0 || !code.dli_fname) return {};
  std::error_code error;
  // A program's own name may be what was typed in a shell, without a folder.
  const fs::path named = code.dli_fname;
  const fs::path file = named.has_parent_path() ? fs::canonical(named, error)
                                                : fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path{} : file.parent_path();
}

void stay_loaded() {
  Dl_info code{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &code) == 0 || !code.dli_fname) return;
  // The handle is kept for good; for code inside the executable there is none, nor any need.
  static_cast<void>(dlopen(code.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
}

}  // namespace kiln
