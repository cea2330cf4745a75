// Compilers for AMD GPUs: the in-process Clang, which knows every target and needs nothing of
// ROCm, and the vendor's hipRTC where it is installed. Knows nothing of problems or tuning.
#pragma once

#include <string>

#include "runtime/compiler.h"

namespace kiln::hip {

/// The in-process Clang, which fills the report from what it made.
/// Errors: compiler (there is no such object), naming the paths tried.
Result<Compiler*> clang_compiler();

/// hipRTC, from the first library that has it. Versions that are known to end the process on
/// targets they do not know compile those in a child. assembly() is refused: it has none.
/// Errors: compiler (no library), naming what was tried.
Result<Compiler*> hiprtc_compiler();

}  // namespace kiln::hip
