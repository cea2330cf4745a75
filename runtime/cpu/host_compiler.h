// How the in-process compiler's shared object is found and opened; `host_compiler()` is what others
// call. Must not know LLVM: everything goes through clang_abi.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/compiler.h"

namespace kiln {

/// Where libkiln_clang.so is looked for, in order: $KILN_CLANG (a file) alone when it is set; else
/// beside the code of kiln itself and in kiln/, ../lib/ and ../lib/kiln/ from there, in the
/// directory that the installation was configured for, and on the dynamic linker's own path.
std::vector<std::string> host_compiler_paths();

/// Opens the first of `paths` that is a compiler of this build's interface.
/// Errors: compiler, naming each path and why it would not do.
Result<std::unique_ptr<Compiler>> open_host_compiler(const std::vector<std::string>& paths);

}  // namespace kiln
