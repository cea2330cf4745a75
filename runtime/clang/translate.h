// C++ text to an object file or assembly, all in memory. Knows nothing of linking or of the C face.
#pragma once

#include <llvm/ADT/SmallVector.h>

#include <string>
#include <vector>

namespace kiln::clang_side {

enum class Emit { object, assembly };

struct Translation {
  llvm::SmallVector<char, 0> bytes;
  std::string log;    // warnings and errors as text
  std::string error;  // empty when it worked
  long long spills = 0;
};

/// True when the flags name a GPU (--offload-arch=gfx…): the text is then that device's kernel.
bool for_device(const std::vector<std::string>& flags);

/// Compiles `text` for the target its flags name (the host's when none). Its #include
/// finds nothing: the text is the only file there is.
void translate(const std::string& text, const std::string& file_name,
               const std::vector<std::string>& flags, Emit emit, Translation& out);

}  // namespace kiln::clang_side
