#include "runtime/gpu/shared_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/env.h"

namespace kiln::gpu {

Result<SharedLibrary> SharedLibrary::open(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return SharedLibrary(handle, name);
  return fail(ErrorCode::device, fmt::format("none of {} could be opened", fmt::join(names, ", ")));
}

std::vector<std::string> toolkit_names(const std::vector<std::string>& sonames) {
  std::vector<std::string> names = sonames;
  const auto below = [&](const std::string& root) {
    for (const char* folder : {"lib64", "lib"})
      for (const std::string& soname : sonames)
        names.push_back(fmt::format("{}/{}/{}", root, folder, soname));
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = env(variable); root != nullptr && *root != '\0') below(root);
  below("/usr/local/cuda");
  return names;
}

std::vector<std::string> rocm_names(const std::vector<std::string>& sonames) {
  std::vector<std::string> names = sonames;
  std::vector<std::string> roots;
  for (const char* variable : {"ROCM_PATH", "HIP_PATH"})
    if (const char* root = env(variable); root != nullptr && *root != '\0')
      roots.emplace_back(root);
  roots.emplace_back("/opt/rocm");
  for (const auto& root : roots)
    for (const auto& soname : sonames) names.push_back(fmt::format("{}/lib/{}", root, soname));
  return names;
}

}  // namespace kiln::gpu
