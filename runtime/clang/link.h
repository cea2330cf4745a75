// An object file to a shared object that the dynamic linker loads by itself. Knows nothing of
// Clang.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln::clang_side {

struct Linked {
  std::vector<char> image;
  std::string error;  // empty when it worked
};

/// Links one object. Symbols it lacks stay open and are the loading process's to supply.
Linked link_shared(std::string_view object);

/// The same for an AMD GPU: a code object that the driver loads. Nothing may stay open.
Linked link_code_object(std::string_view object);

}  // namespace kiln::clang_side
