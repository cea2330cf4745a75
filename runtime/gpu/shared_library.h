// A shared library opened under the first of several names that works, kept for the life of the
// process: drivers and compilers do not like to be closed. Knows nothing of what is inside.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "kiln/error.hpp"

namespace kiln::gpu {

class SharedLibrary {
 public:
  /// Errors: device, naming everything that was tried.
  static Result<SharedLibrary> open(const std::vector<std::string>& names);

  /// False when there is no such symbol.
  template <typename F>
  bool load(F*& function, const char* symbol) const {
    function = reinterpret_cast<F*>(dlsym(handle_, symbol));
    return function != nullptr;
  }
  const std::string& name() const { return name_; }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_;
  std::string name_;
};

/// `sonames` as they are (the dynamic linker's own search), then below $CUDA_HOME, $CUDA_PATH and
/// /usr/local/cuda, in lib64 and lib.
std::vector<std::string> toolkit_names(const std::vector<std::string>& sonames);
/// The same of ROCm: $ROCM_PATH, $HIP_PATH and /opt/rocm, in lib.
std::vector<std::string> rocm_names(const std::vector<std::string>& sonames);

}  // namespace kiln::gpu
