// hipRTC as a table of functions, opened at run time. Only what kiln calls is declared, by hand,
// from the library's documented interface.
#pragma once

#include <cstddef>
#include <string>

#include "kiln/error.hpp"
#include "runtime/gpu/shared_library.h"

namespace kiln::hip {

struct Hiprtc {
  using Program = struct HiprtcProgram*;
  int (*version)(int* major, int* minor) = nullptr;
  int (*create)(Program*, const char* source, const char* name, int headers, const char** texts,
                const char** names) = nullptr;
  int (*compile)(Program, int count, const char** options) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*code_size)(Program, std::size_t*) = nullptr;
  int (*code)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  int major = 0, minor = 0;
  std::string library;

  /// Errors: compiler, naming what was tried.
  static Result<Hiprtc> open();

  /// Whether compiling for `arch` is known to end the process instead of failing: 5.2 frees memory
  /// that it does not own when it meets a target younger than itself.
  bool may_abort(const std::string& arch) const;
};

}  // namespace kiln::hip
