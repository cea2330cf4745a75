// A shared object opened at run time. Symbols stay local: OpenBLAS and BLIS export the same names.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace kiln {

/// A handle that is never closed: peers cannot be unloaded once their thread pools run.
class Library {
 public:
  /// The first of `names` that loads; else an empty Library whose `error()` names all of them.
  static Library open(const std::vector<std::string>& names) {
    Library library;
    for (const auto& name : names) {
      library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library.handle_) {
        library.path_ = name;
        return library;
      }
      const char* why = dlerror();
      if (!library.error_.empty()) library.error_ += "; ";
      library.error_ += why ? why : name.c_str();
    }
    return library;
  }
  explicit operator bool() const { return handle_ != nullptr; }
  /// The same for every opening of the same file.
  const void* handle() const { return handle_; }
  const std::string& path() const { return path_; }
  const std::string& error() const { return error_; }

  /// Null when the library does not export `name`.
  template <typename Fn>
  Fn symbol(const char* name) const {
    return reinterpret_cast<Fn>(dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
  std::string path_, error_;
};

/// Takes functions of a library by name and remembers which are missing.
class Symbols {
 public:
  explicit Symbols(const Library& library) : library_(library) {}
  template <typename Fn>
  void take(Fn& slot, const char* name) {
    slot = library_.symbol<Fn>(name);
    if (!slot) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
  }
  /// Names with commas between them.
  const std::string& missing() const { return missing_; }

 private:
  const Library& library_;
  std::string missing_;
};

/// Where kiln's own peer modules (Eigen, libxsmm) may lie: the installation's library folder,
/// ../lib and the folder of the running program, and the build tree they were made in.
std::vector<std::string> module_candidates(const std::string& file_name);

}  // namespace kiln
