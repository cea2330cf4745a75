// Reads what an object file says of its own needs. Knows ELF, and nothing of who made the object.
#pragma once

#include <string_view>

namespace kiln::clang_side {

struct ObjectInfo {
  long long code_bytes = 0;   // all executable sections
  long long stack_bytes = 0;  // the largest frame of one function, from .stack_sizes
};

/// Zeros for anything that is not a 64-bit ELF object.
ObjectInfo inspect_object(std::string_view object);

}  // namespace kiln::clang_side
